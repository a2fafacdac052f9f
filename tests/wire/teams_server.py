"""A server whose rules of access give each of eight callers a surface of their own; each component bears its mark.

A caller `person3` may have what is marked `mark3`, and what is marked `mark9`, which is for everybody.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types
from fastmcp.server.dependencies import get_access_token

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access.token_file import new_token

N_CALLERS, EVERYBODYS = 8, 9
GROUPS = (*range(N_CALLERS), EVERYBODYS)
N_TOOLS = 3


def write_rules(folder: Path) -> tuple[Path, list[str]]:
    """Write the rules of the server, and return their file and the token of each caller."""
    tokens, settings = folder / "tokens.json", folder / "agent-utilities.toml"
    lines = [f'[auth]\ntokens = "{tokens}"']
    for i in range(N_CALLERS):
        lines.append(f'[profiles.surface{i}]\ntags = ["group{i}", "group{EVERYBODYS}"]')
        lines.append(f'[[access]]\nwho = {{ subject = "person{i}" }}\nprofile = "surface{i}"')
    settings.write_text("\n".join(lines))
    return settings, [new_token(tokens, f"person{i}") for i in range(N_CALLERS)]


def names(kind: str, group: int) -> list[str]:
    """Return the names or URIs of a kind of component that are of a group."""
    forms = {"tool": "look_{0}_{1}", "prompt": "ask_{0}_{1}", "resource": "note://{0}/{1}"}
    if kind == "template":
        return [f"shelf{group}://{{key}}"]
    return [forms[kind].format(group, i) for i in range(N_TOOLS)]


def _add(mcp: AgentServer, group: int) -> None:
    options: dict[str, Any] = {"tags": {f"group{group}"}, "description": f"Look at a note of mark{group}."}

    def answered() -> str:
        token = get_access_token()
        return f"mark{group} for {token.claims['sub'] if token else 'nobody'}"

    def answered_by_key(key: str) -> str:
        return answered()

    for tool in names("tool", group):
        mcp.tool(answered, name=tool, **options)
    for prompt in names("prompt", group):
        mcp.prompt(answered, name=prompt, **options)
    for uri in names("resource", group):
        mcp.resource(uri, name=f"note{group}", **options)(answered)
    mcp.resource(names("template", group)[0], name=f"shelf{group}", **options)(answered_by_key)


def teams_server() -> AgentServer:
    """Return the server."""
    mcp = create_mcp_server("teams")
    for group in GROUPS:
        _add(mcp, group)

    @mcp.completion
    def complete(
        ref: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        context: mcp_types.CompletionContext | None,
    ) -> list[str]:
        return [f"mark{(ref.name if isinstance(ref, mcp_types.PromptReference) else ref.uri).split('_')[1]}"]

    return mcp


if __name__ == "__main__":
    teams_server().cli()
