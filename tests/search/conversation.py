"""What one caller is answered by a server in process, over 2026-07-28 and in a session of 2025-11-25."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import httpx2

from agent_utilities import AgentServer
from tests.server.in_process import web_of
from tests.wire.search_questions import QUESTIONS, Question, masked
from tests.wire.wires import ACCEPT, INITIALIZE, INITIALIZED, LEGACY, jsonrpc, modern_request

ROUTES = ("/tools", "/context?definitions=true", "/context?active=open_vault,read_note")


class Asking(Protocol):
    """Asks one request after another."""

    async def ask(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> bytes:
        """Return the bytes of the answer."""
        ...


class Stateless:
    """A caller of 2026-07-28."""

    def __init__(self, web: httpx2.AsyncClient) -> None:
        self._web = web

    async def ask(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> bytes:
        body, routing = modern_request(method, params)
        return await _posted(self._web, body, {**dict(routing), **headers})


class InSession:
    """A caller of 2025-11-25."""

    def __init__(self, web: httpx2.AsyncClient, session: str, opened: bytes) -> None:
        self._web, self.session, self.opened = web, session, opened

    @classmethod
    async def open(cls, web: httpx2.AsyncClient, **headers: str) -> InSession:
        """Open a session."""
        opened = await web.post("/mcp", json=INITIALIZE, headers={**dict([ACCEPT]), **headers})
        caller = cls(web, opened.headers["mcp-session-id"], opened.content)
        await _posted(web, INITIALIZED, {**caller._protocol, **headers})
        return caller

    @property
    def _protocol(self) -> dict[str, str]:
        return {**dict([ACCEPT]), "mcp-protocol-version": LEGACY, "mcp-session-id": self.session}

    async def ask(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> bytes:
        return await _posted(self._web, jsonrpc(method, params), {**self._protocol, **headers})

    async def close(self) -> None:
        """End the session."""
        await self._web.delete("/mcp", headers=self._protocol)


async def _posted(web: httpx2.AsyncClient, body: Any, headers: Mapping[str, str]) -> bytes:
    # As ASCII, so that what is not Unicode goes over the wire as it may be written in JSON.
    given = {"content-type": "application/json", **headers}
    return (await web.post("/mcp", content=json.dumps(body).encode(), headers=given)).content


def result_of(answer: bytes) -> dict[str, Any]:
    """Return the result in an answer."""
    found: dict[str, Any] = json.loads(answer)["result"]
    return found


def names_in(answer: bytes) -> list[str]:
    """Return the names of the tools in a list, without the entry tools."""
    names = [tool["name"] for tool in result_of(answer)["tools"]]
    return [name for name in names if name not in ("tool_search", "call_tool")]


async def transcript(server: AgentServer, questions: Iterable[Question] = tuple(QUESTIONS)) -> list[tuple[str, str]]:
    """Return everything that a caller asks a server, each with its answer."""
    said: list[tuple[str, str]] = []
    asked = list(questions)
    async with web_of(server) as web:
        in_session = await InSession.open(web)
        stateless = Stateless(web)
        said.append(("initialize", masked(in_session.opened)))
        said.append(("server/discover", masked(await stateless.ask("server/discover"))))
        for caller in (stateless, in_session):
            said.extend([(repr(each), masked(await caller.ask(*each))) for each in asked])
        said.extend([(path, (await web.get(path)).text) for path in ROUTES])
    return said
