"""The server that the hostile caller attacks: every kind of component, some of each denied.

What the operator's bounds must deny answers `LEAKED` and says so in its description, so that any answer that holds
that word is a leak. Run it as an author's server is run:

    MCP_DISABLED_TAGS=write,delete python bounded_server.py -t http -p 0
    python bounded_server.py -t http -p 0 --toolsets read --read-only
"""

from __future__ import annotations

import mcp_types
from fastmcp import FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers.addressing import hash_tool
from fastmcp.tools.base import Tool

from agent_utilities import create_mcp_server

LEAKED = "LEAKED"
READ = {"readOnlyHint": True}


def app_meta(name: str) -> dict[str, object]:
    """Return the meta that makes a tool addressable as `<hash>_<name>`, as `FastMCPApp("panel")` would write it."""
    return {"ui": {"visibility": ["model", "app"]}, "fastmcp": {"tool_hash": hash_tool("panel", name)}}


def injected(name: str, tag: str) -> Tool:
    """Return a tool for injection that answers with its name, or `LEAKED` where its tag is one to deny."""
    answer = name if tag == "read" else LEAKED
    return Tool.from_function(
        lambda: answer,
        name=name,
        tags={tag},
        description=answer,
        annotations=mcp_types.ToolAnnotations(read_only_hint=True),
    )


mcp = create_mcp_server(
    "bounded", middleware=[ToolInjectionMiddleware([injected("added_peek", "read"), injected("added_wipe", "delete")])]
)


@mcp.tool(tags={"notes", "read"}, annotations=READ)
def read_note(text: str = "") -> str:
    return f"read {text}"


@mcp.tool(tags={"notes", "read"}, annotations=READ)
def list_notes() -> str:
    return "list"


@mcp.tool(tags={"notes", "delete"}, description=LEAKED)
def wipe_notes(text: str = "") -> str:
    return LEAKED


@mcp.tool(tags={"notes", "write"}, description=LEAKED)
def write_note(text: str = "") -> str:
    return LEAKED


@mcp.tool(tags={"notes", "Write"}, description=LEAKED)
def rename_note() -> str:
    return LEAKED


@mcp.tool(tags={"notes", "\uff57\uff52\uff49\uff54\uff45"}, description=LEAKED)  # "write", full width
def append_note() -> str:
    return LEAKED


@mcp.tool(description=LEAKED)
def stray_tool() -> str:
    return LEAKED


@mcp.tool(name="edit_note", version="1", tags={"notes", "read"}, annotations=READ)
def edit_note_first() -> str:
    return "edit 1"


@mcp.tool(name="edit_note", version="2", tags={"notes", "write"}, description=LEAKED)
def edit_note_second() -> str:
    return LEAKED


@mcp.tool(name="sealed_note", version="2", tags={"notes", "write"}, description=LEAKED)
def sealed_note() -> str:
    return LEAKED


@mcp.tool(tags={"read"}, annotations=READ, meta=app_meta("panel_show"))
def panel_show() -> str:
    return "panel"


@mcp.tool(tags={"delete"}, description=LEAKED, meta=app_meta("panel_wipe"))
def panel_wipe() -> str:
    return LEAKED


@mcp.prompt(tags={"read"})
def greet(name: str = "") -> str:
    return f"greet {name}"


@mcp.prompt(tags={"delete"}, description=LEAKED)
def plot(name: str = "") -> str:
    return LEAKED


@mcp.prompt(name="story", version="1", tags={"read"})
def story_first() -> str:
    return "story 1"


@mcp.prompt(name="story", version="2", tags={"write"}, description=LEAKED)
def story_second() -> str:
    return LEAKED


@mcp.resource("note://open", tags={"read"})
def note_open() -> str:
    return "open"


@mcp.resource("plan://secret", tags={"delete"}, description=LEAKED)
def plan_secret() -> str:
    return LEAKED


@mcp.resource("note://hidden", tags={"write"}, description=LEAKED)
def note_hidden() -> str:
    return LEAKED


@mcp.resource("note://{name}", tags={"read"})
def note(name: str) -> str:
    return f"note {name}"


@mcp.resource("vault://{key}", tags={"delete"}, description=LEAKED)
def vault(key: str) -> str:
    return LEAKED


@mcp.resource("shelf://{row}/books", tags={"write"}, description=LEAKED)
def shelf_books(row: str) -> str:
    return LEAKED


@mcp.resource("shelf://{path*}", tags={"read"})
def shelf(path: str) -> str:
    return f"shelf {path}"


@mcp.completion
def complete(
    ref: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
    argument: mcp_types.CompletionArgument,
    context: mcp_types.CompletionContext | None,
) -> list[str]:
    name = ref.name if isinstance(ref, mcp_types.PromptReference) else ref.uri
    return [f"known {name}"] if name in {"greet", "story", "note://{name}", "shelf://{path*}"} else [LEAKED]


child = create_mcp_server("kid")


@child.tool(tags={"read"}, annotations=READ)
def peek() -> str:
    return "peek"


@child.tool(tags={"delete"}, description=LEAKED)
def wipe() -> str:
    return LEAKED


@child.tool(name="edit", version="1", tags={"read"}, annotations=READ)
def edit_first() -> str:
    return "kid edit 1"


@child.tool(name="edit", version="2", tags={"write"}, description=LEAKED)
def edit_second() -> str:
    return LEAKED


@child.prompt(tags={"read"})
def hello() -> str:
    return "hello"


@child.prompt(tags={"write"}, description=LEAKED)
def scheme() -> str:
    return LEAKED


@child.resource("toy://open", tags={"read"})
def toy_open() -> str:
    return "toy"


@child.resource("toy://hidden", tags={"write"}, description=LEAKED)
def toy_hidden() -> str:
    return LEAKED


@child.resource("toy://box/{name}", tags={"delete"}, description=LEAKED)
def toy_box(name: str) -> str:
    return LEAKED


upstream = FastMCP("far")


@upstream.tool(tags={"read"}, annotations=READ)
def look() -> str:
    return "look"


@upstream.tool(tags={"delete"}, description=LEAKED)
def burn() -> str:
    return LEAKED


@upstream.prompt(tags={"write"}, description=LEAKED)
def decree() -> str:
    return LEAKED


@upstream.resource("ash://pile", tags={"delete"}, description=LEAKED)
def ash_pile() -> str:
    return LEAKED


mcp.mount(child, namespace="kid")
mcp.mount(create_proxy(upstream), namespace="far")

if __name__ == "__main__":
    mcp.cli()
