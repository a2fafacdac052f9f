"""What `bounded_server.py` must show and hold back under each launch, written down by hand."""

from __future__ import annotations

from fastmcp.server.providers.addressing import hashed_backend_name

from tests.wire.processes import Launch

LAUNCHES = {
    "env": Launch(env=(("MCP_DISABLED_TAGS", "write,DELETE"), ("MCP_DISABLED_TOOLS", "Stray_Tool"))),
    "cli": Launch(options=("--toolsets", "read", "--read-only", "--disabled-tags", "delete")),
}
"""Two ways to bound the same server to the same surface: by denies in env, by allow-lists on the command line."""

LEAKED = "LEAKED"

TOOLS = [
    "added_peek", "read_note", "list_notes", "edit_note", "panel_show", "kid_peek", "kid_edit", "far_look",
]  # fmt: skip
PROMPTS = ["greet", "story", "kid_hello"]
RESOURCES = ["note://open", "toy://kid/open"]
TEMPLATES = ["note://{name}", "shelf://{path*}"]

DENIED_TOOLS = [
    "wipe_notes", "write_note", "rename_note", "append_note", "stray_tool", "sealed_note", "panel_wipe",
    "added_wipe", "kid_wipe", "far_burn",
]  # fmt: skip
DENIED_PROMPTS = ["plot", "kid_scheme", "far_decree"]
DENIED_RESOURCES = ["plan://secret", "toy://kid/hidden", "ash://far/pile"]
"""Denied resources that no permitted template's pattern fits."""
DENIED_TEMPLATES = ["vault://{key}", "toy://kid/box/{name}"]
SHADOWED = ["note://hidden", "shelf://{row}/books", "shelf://a/books"]
"""A denied resource, a denied template and a URI of its, where a permitted template's pattern fits them too."""
DENIED_URIS = ["vault://gold", "toy://kid/box/red"]
"""URIs that only denied templates fit."""
DENIED = [*DENIED_TOOLS, *DENIED_PROMPTS, *DENIED_RESOURCES, *DENIED_TEMPLATES, *SHADOWED]

HASHED = hashed_backend_name("panel", "panel_show")
HASHED_DENIED = hashed_backend_name("panel", "panel_wipe")


def absent(name: str) -> str:
    """Return a name that nothing bears: as long as the given one, and as unlike every permitted one."""
    return name[:-1] + ("q" if name[-1] != "q" else "z")
