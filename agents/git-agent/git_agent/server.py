"""The `git-agent` MCP server."""

from agent_utilities import create_mcp_server
from git_agent.hints import HINTS
from git_agent.surface import TOOLS

mcp = create_mcp_server(
    "git-agent",
    instructions=(
        "Work with git repositories inside the operator's allowed folders. `repo` is the top of a "
        "repository, relative to the allowed folder; file paths are relative to that top. Hooks never run."
    ),
    mask_error_details=True,
)
for entry in TOOLS:
    hint = {"anthropic/searchHint": HINTS[entry.function.__name__]}
    mcp.tool(entry.function, title=entry.title, tags=set(entry.tags), annotations=entry.annotations, meta=hint)
