"""The server of two demos: an office of ten kinds of things, six tools for each.

`python3 tasks.py demo tool-search` runs all of it, and each bundle of `demo capabilities` one kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from agent_utilities.server.agent_server import AgentServer
from agent_utilities.server_factory import create_mcp_server

_THINGS = {
    "invoice": "a bill that a customer is sent, with an amount and a due date",
    "customer": "a person or company that buys from us, with address and contact",
    "order": "what a customer bought, with quantities and prices",
    "shipment": "a parcel on its way to a customer, with carrier and tracking number",
    "payment": "money that came in or went out, with its date and account",
    "ticket": "a request for help from a customer, with priority and history",
    "meeting": "an appointment in the calendar, with time, room and who takes part",
    "document": "a file in the archive, with versions and who may read it",
    "employee": "somebody who works for us, with team, role and holidays",
    "campaign": "a newsletter or an advertisement, with its audience and results",
}
_READS = ("list", "get", "export")

Id = Annotated[str, Field(description="Its number, such as A-17.")]
Name = Annotated[str, Field(description="What it is called.")]
Details = Annotated[dict[str, str], Field(description="Further fields, by name.")]
Limit = Annotated[int, Field(description="The most to return.", ge=1, le=100)]
Status = Annotated[str | None, Field(description="Only those in this state, such as open.")]
Format = Annotated[Literal["csv", "json", "pdf"], Field(description="The kind of file.")]


def office_server() -> AgentServer:
    """Return a server of 60 tools that say what they would do."""
    server = create_mcp_server("office", instructions="Run an office: sales, support, people.")
    for thing, about in _THINGS.items():
        for verb, function in _functions(thing).items():
            plural = f"{thing}s"
            tags = {plural, "read" if verb in _READS else "write"}
            name = f"{verb}_{plural if verb in ('list', 'export') else thing}"
            text = f"{verb.capitalize()} {plural if verb in ('list', 'export') else f'one {thing}'}: {about}."
            server.tool(function, name=name, description=text, tags=tags, annotations={"readOnlyHint": verb in _READS})
    return server


def _functions(thing: str) -> dict[str, Callable[..., str]]:
    def list_all(limit: Limit = 20, status: Status = None) -> str:
        return f"{limit} {thing}s{f' that are {status}' if status else ''}"

    def get(id: Id) -> str:
        return f"{thing} {id}"

    def create(name: Name, details: Details | None = None) -> str:
        return f"{thing} A-17 made: {name}{''.join(f', {key} {value}' for key, value in (details or {}).items())}"

    def update(id: Id, details: Details) -> str:
        return f"{thing} {id} updated: {', '.join(f'{key} {value}' for key, value in details.items())}"

    def delete(id: Id) -> str:
        return f"{thing} {id} deleted"

    def export(format: Format = "csv", status: Status = None) -> str:
        return f"{thing}s.{format}{f' of those that are {status}' if status else ''}"

    functions = (get, create, update, delete, export)
    return {"list": list_all, **{each.__name__: each for each in functions}}


if __name__ == "__main__":
    office_server().cli()
