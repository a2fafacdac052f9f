"""A server of every kind of component for a caller whom a rule of access denies some; `WITH_DENIED=1` gives it those.

With and without that variable it must answer that caller alike, to the byte. What is denied has the tag `vault`, and
shares words, tags, versions and beginnings of names with what is permitted.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mcp_types

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access.token_file import new_token

LEAKED = "LEAKED"
RULES = """
[auth]
tokens = "{tokens}"

[profiles.outsiders]
disabled_tags = ["vault"]

[[access]]
who = {{ subject = "bob" }}
profile = "outsiders"

[[access]]
who = {{ subject = "ann" }}
profile = "all"
may = ["metrics", "context"]
"""
TOOLS = ("read_note", "list_notes", "send_mail", "plots", "edit_note", "kid_peek")
DENIED_TOOLS = ("wipe_note", "read_notes", "open_vault", "kid_wipe")
DENIED_PROMPTS = ("plot", "greeting", "kid_scheme")
DENIED_URIS = ("plan://secret", "vault://gold", "vault://{key}", "toy://kid/hidden")
DENIED = (*DENIED_TOOLS, *DENIED_PROMPTS, *DENIED_URIS)


def write_rules(folder: Path) -> tuple[Path, dict[str, str]]:
    """Write the rules of such a server, and return their file and the token of each caller."""
    tokens, settings = folder / "tokens.json", folder / "agent-utilities.toml"
    settings.write_text(RULES.format(tokens=tokens))
    return settings, {name: new_token(tokens, name) for name in ("ann", "bob", "eve")}


def _add(mcp: AgentServer, kind: str, name: str, text: str, tag: str, **more: Any) -> None:
    def answered(key: str = "") -> str:
        return f"{text} {key}".strip()

    plain, keyed = (lambda: text), (lambda key: f"{text} {key}")
    options = {"tags": {tag, "note"}, "description": f"{text} {name}", **more}
    if kind == "tool":
        mcp.tool(answered, name=name, annotations={"readOnlyHint": tag == "read"}, **options)
    elif kind == "prompt":
        mcp.prompt(answered, name=name, **options)
    else:
        mcp.resource(name, name=name.partition(":")[0], **options)(keyed if "{" in name else plain)


def _fill(mcp: AgentServer, child: AgentServer, *, with_denied: bool) -> None:
    for tool in TOOLS[:-2]:
        _add(mcp, "tool", tool, "note", "read")
        if with_denied and tool == "list_notes":  # in the midst of the others
            for denied in DENIED_TOOLS[:-1]:
                _add(mcp, "tool", denied, LEAKED, "vault")
    _add(mcp, "tool", "edit_note", "edit 1", "read", version="1")
    _add(child, "tool", "peek", "peek", "read")
    _add(mcp, "prompt", "greet", "greet", "read")
    _add(mcp, "resource", "note://open", "open", "read")
    _add(mcp, "resource", "note://of/{key}", "note", "read")
    if with_denied:
        _add(mcp, "tool", "edit_note", LEAKED, "vault", version="2")
        _add(child, "tool", "wipe", LEAKED, "vault")
        for prompt in DENIED_PROMPTS[:-1]:
            _add(mcp, "prompt", prompt, LEAKED, "vault")
        _add(child, "prompt", "scheme", LEAKED, "vault")
        _add(mcp, "resource", "plan://secret", LEAKED, "vault")
        _add(mcp, "resource", "vault://{key}", LEAKED, "vault")
        _add(child, "resource", "toy://hidden", LEAKED, "vault")


def outsider_server(*, with_denied: bool, **options: Any) -> AgentServer:
    """Return the server."""
    mcp, child = create_mcp_server("outside", **options), create_mcp_server("kid", **options)
    _fill(mcp, child, with_denied=with_denied)
    mcp.mount(child, namespace="kid")

    @mcp.completion
    def complete(
        ref: mcp_types.PromptReference | mcp_types.ResourceTemplateReference,
        argument: mcp_types.CompletionArgument,
        context: mcp_types.CompletionContext | None,
    ) -> list[str]:
        name = ref.name if isinstance(ref, mcp_types.PromptReference) else ref.uri
        return ["known"] if name in ("greet", "note://of/{key}") else [LEAKED]

    return mcp


mcp = outsider_server(with_denied=bool(os.environ.get("WITH_DENIED")))

if __name__ == "__main__":
    mcp.cli()
