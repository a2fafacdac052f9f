"""FastMCP's own client, on four wires: it sees what is permitted, and nothing that it does reaches what is denied."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from tests.every import every_of
from tests.wire.expected import (
    DENIED_PROMPTS,
    DENIED_RESOURCES,
    DENIED_TEMPLATES,
    DENIED_TOOLS,
    DENIED_URIS,
    HASHED_DENIED,
    LAUNCHES,
    PROMPTS,
    RESOURCES,
    SHADOWED,
    TEMPLATES,
    TOOLS,
)
from tests.wire.wires import LEGACY, MODERN, WIRES, Access, WireName

_MODES: dict[WireName, Literal["legacy", "auto"]] = {"legacy": "legacy"}
VERSIONS = {"stdio": MODERN, "sse": LEGACY, "legacy": LEGACY, "modern": MODERN}
REFERENCES: list[PromptReference | ResourceTemplateReference] = [
    *(PromptReference(name=name) for name in DENIED_PROMPTS),
    *(ResourceTemplateReference(uri=uri) for uri in (*DENIED_TEMPLATES, *DENIED_RESOURCES, *SHADOWED)),
]
"""References to all that is denied and could be completed."""
VERSIONED = ["edit_note", "kid_edit", "sealed_note"]


@dataclass
class Session:
    """What one client saw and got through one connection.

    Args:
        version: the protocol version that was negotiated.
        tools, prompts, resources, templates: names and URIs, as listed.
        served: each request that was answered and not refused, as (method, name).
        completed: values of completions of what is denied.
        errors: the text of the error for each tool called without raising.
    """

    version: str | None = None
    tools: list[str] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)
    served: set[tuple[str, str]] = field(default_factory=set)
    completed: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)

    async def fill(self, client: Client[Any]) -> None:
        """List everything, and ask for everything, permitted or not."""
        self.version = client.protocol_version
        self.tools = [tool.name for tool in await client.list_tools()]
        self.prompts = [prompt.name for prompt in await client.list_prompts()]
        self.resources = [str(resource.uri) for resource in await client.list_resources()]
        self.templates = [template.uri_template for template in await client.list_resource_templates()]
        for name in (*TOOLS, *DENIED_TOOLS, HASHED_DENIED):
            await self._try("call", name, client.call_tool(name))
        for name in (*PROMPTS, *DENIED_PROMPTS):
            await self._try("get", name, client.get_prompt(name))
        for uri in (*RESOURCES, *DENIED_RESOURCES, *DENIED_URIS, *SHADOWED):
            await self._try("read", uri, client.read_resource(uri))
        for name in VERSIONED:
            await self._try("call 2", name, client.call_tool(name, version="2"))
        await self._try("get 2", "story", client.get_prompt("story", version="2"))
        for ref in REFERENCES:
            self.completed += (await client.complete(ref, {"name": "name", "value": ""})).values
        for name in ("wipe_notes", "kid_wipe", "far_burn", "nothing_here"):
            result = await client.call_tool(name, raise_on_error=False)
            self.errors[name] = "".join(getattr(block, "text", "") for block in result.content)

    async def _try(self, method: str, name: str, request: Awaitable[Any]) -> None:
        try:
            await request
        except (ToolError, MCPError):
            return
        self.served.add((method, name))


@pytest.fixture(scope="module")
def sessions(
    accesses: Mapping[str, Access], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[tuple[str, WireName], Session]:
    """What the client saw, under each launch and over each wire."""
    log = tmp_path_factory.mktemp("stdio") / "stderr.log"

    async def connected(launch: str, wire: WireName) -> Session:
        seen, mode = Session(), _MODES.get(wire, "auto")
        async with Client(_transport(wire, accesses[launch].url, launch, log), mode=mode) as client:
            await seen.fill(client)
        return seen

    return {(launch, wire): anyio.run(connected, launch, wire) for launch in LAUNCHES for wire in WIRES}


def _transport(wire: WireName, url: str, launch: str, log: Path) -> Any:
    if wire == "stdio":
        command, *arguments = LAUNCHES[launch].command()
        return StdioTransport(command, arguments, env=LAUNCHES[launch].environ, keep_alive=False, log_file=log)
    return SSETransport(f"{url}/sse") if wire == "sse" else StreamableHttpTransport(f"{url}/mcp")


def test_the_wire_speaks_its_version(sessions: Mapping[tuple[str, WireName], Session]) -> None:
    versions = {(launch, wire): session.version for (launch, wire), session in sessions.items()}
    assert versions == {(launch, wire): VERSIONS[wire] for launch, wire in sessions}


@every_of("session", "sessions")
def test_it_lists_the_permitted_tools(session: Session) -> None:
    assert session.tools == TOOLS


@every_of("session", "sessions")
def test_it_lists_the_permitted_prompts(session: Session) -> None:
    assert session.prompts == PROMPTS


@every_of("session", "sessions")
def test_it_lists_the_permitted_resources(session: Session) -> None:
    assert session.resources == RESOURCES


@every_of("session", "sessions")
def test_it_lists_the_permitted_templates(session: Session) -> None:
    assert session.templates == TEMPLATES


@every_of("session", "sessions")
def test_it_is_served_exactly_what_it_lists(session: Session) -> None:
    tools, prompts = {("call", name) for name in TOOLS}, {("get", name) for name in PROMPTS}
    assert session.served == tools | prompts | {("read", uri) for uri in RESOURCES}


@every_of("session", "sessions")
def test_nothing_denied_is_completed(session: Session) -> None:
    assert session.completed == []


@every_of("session", "sessions")
def test_the_error_is_the_one_for_an_unknown_tool(session: Session) -> None:
    assert session.errors == {name: f"Unknown tool: {name!r}" for name in session.errors}
