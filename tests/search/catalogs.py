"""Tools for routers: seven for each of nine topics, whose words have nothing in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastmcp import FastMCP

TOPICS: Mapping[str, str] = {
    "invoice": "an invoice in accounting",
    "weather": "the weather and its forecast",
    "branch": "a git branch of a repository",
    "meeting": "a meeting in the calendar",
    "photo": "a photo in the album",
    "recipe": "a recipe for cooking",
    "ticket": "a support ticket of a customer",
    "song": "a song on the music player",
    "parcel": "a parcel on its way by courier",
}
VERBS = ("show", "change", "remove", "count", "share", "archive", "rename")
N_TOOLS = len(TOPICS) * len(VERBS)


def tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    """Return a definition as `tools/list` sends it."""
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    return {"name": name, "description": description, "inputSchema": schema, **more}


def catalog() -> list[dict[str, Any]]:
    """Return all the tools, topic by topic: `invoice_show` and so on."""
    return [
        tool(f"{noun}_{verb}", f"{verb.title()}s {text}.", _meta={"fastmcp": {"tags": [noun]}})
        for noun, text in TOPICS.items()
        for verb in VERBS
    ]


def of_topic(noun: str) -> list[str]:
    """Return the names of a topic's tools."""
    return [f"{noun}_{verb}" for verb in VERBS]


def names(definitions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of some definitions."""
    return [definition["name"] for definition in definitions]


def server(name: str = "office") -> FastMCP[Any]:
    """Return a server that has all the tools; each tells its name and what it was called with."""
    mcp = FastMCP[Any](name)
    for noun, text in TOPICS.items():
        for verb in VERBS:
            add(mcp, f"{noun}_{verb}", f"{verb.title()}s {text}.", noun)
    return mcp


def add(mcp: FastMCP[Any], name: str, description: str, *tags: str) -> None:
    """Add a tool that tells its name and what it was called with."""

    def run(id: str) -> str:
        if id == "missing":
            raise ValueError(f"{name} knows no such id")
        return f"{name} of {id}"

    mcp.tool(run, name=name, description=description, tags=set(tags))
