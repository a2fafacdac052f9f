"""Nine turns of a conversation over six capabilities: what each says and calls, and what there is after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import mcp_types
from fastmcp import Client

from agent_utilities import AgentServer
from agent_utilities.gateway.capabilities.model import Capabilities
from agent_utilities.gateway.capabilities.servers import Offer
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.selection.channels import META_KEY
from tests.gateway.capabilities.capable import LONG_S, gateway, listed, offer, processes
from tests.parts import capabilities_of, upstreams_of

Era = Literal["legacy", "auto"]
ERAS: Mapping[str, Era] = {"session": "legacy", "stateless": "auto"}
WORDS: Mapping[str, str] = {
    "versioning": "commit my changes to git",
    "files": "read the file notes.txt on disk",
    "clock": "what time is it in Tokyo",
    "web": "fetch this web page by its url",
    "mail": "send an email to my colleague",
    "database": "run a query on the database table",
}
SMALL_TALK = "thank you, that was kind"


@dataclass(frozen=True)
class Call:
    """A call of a tool in a turn.

    Args:
        tool: its name on the gateway.
        fails: whether it is to fail.
        has_words: whether the turn's words come with it, before any list has them.
    """

    tool: str
    fails: bool = False
    has_words: bool = False


@dataclass(frozen=True)
class Turn:
    """What a caller says in a turn, what he calls in it, and what that comes to.

    Args:
        words: what he says.
        activated, evicted: what the words switch on, and what gives way to it.
        active: what is on after the turn, least recently used first.
        call: what he calls after his list, or with his words.
    """

    words: str
    activated: tuple[str, ...]
    evicted: tuple[str, ...]
    active: tuple[str, ...]
    call: Call | None = None


TURNS = (
    Turn(WORDS["versioning"], ("versioning",), (), ("versioning",)),
    Turn(WORDS["files"], ("files",), (), ("versioning", "files")),
    Turn(SMALL_TALK, (), (), ("versioning", "files")),
    Turn(WORDS["clock"], ("clock",), (), ("versioning", "files", "clock")),
    Turn(
        WORDS["web"],
        ("web",),
        (),
        ("files", "clock", "web", "versioning"),
        Call("versioning-server_git_log", has_words=True),
    ),
    Turn(WORDS["mail"], ("mail",), ("files",), ("clock", "web", "versioning", "mail")),
    Turn(WORDS["mail"], (), (), ("clock", "web", "versioning", "mail"), Call("clock-server_now", fails=True)),
    Turn(WORDS["database"], ("database",), ("clock",), ("web", "versioning", "mail", "database")),
    Turn(WORDS["files"], ("files",), ("web",), ("versioning", "mail", "database", "files")),
)
"""Nine turns, by which each of six capabilities is on once, and three give way."""


@dataclass(frozen=True)
class After:
    """What there is after a turn.

    Args:
        activated, evicted: what the turn switched on, and what gave way.
        active: what is on, least recently used first.
        listed: the capabilities whose tools are listed.
        running: the server of each process of a capability, as the operating system counts.
    """

    activated: tuple[str, ...]
    evicted: tuple[str, ...]
    active: tuple[str, ...]
    listed: frozenset[str]
    running: tuple[str, ...]


def six(most: int = 4, *, routes: bool = True) -> Offer:
    """Return six capabilities that clear words call for, whatever compares them."""
    offered = replace(offer(most), routes=routes)
    known = {
        name: replace(each, triggers=(WORDS[name], f"please {WORDS[name]}", f"{WORDS[name]} now"))
        for name, each in offered.capabilities.by_name.items()
    }
    return replace(offered, capabilities=Capabilities(known))


class Talk:
    """One caller, who keeps what a stateless caller must bring along.

    Args:
        gateway: what he calls.
        client: his client.
        is_stateless: whether each request brings what is on.
    """

    def __init__(self, gateway: AgentServer, client: Client[Any], *, is_stateless: bool) -> None:
        self._gateway, self._client, self._is_stateless = gateway, client, is_stateless
        self.value = ""
        self._upstreams: dict[str, Upstream] = {}

    async def list(self, words: str) -> tuple[list[str], dict[str, Any]]:
        """List for some words; return the tools' names, and what is told of capabilities."""
        names, summary = await listed(self._client, **self._selection(words))
        return names, self._told(summary["capabilities"])

    async def call(self, tool: str, words: str = "", *, fails: bool = False) -> dict[str, Any]:
        """Call a tool; return what is told of capabilities, empty where nothing is."""
        meta = {META_KEY: self._selection(words)}
        params = mcp_types.CallToolRequestParams.model_validate(
            {"name": tool, "arguments": {"fail": fails}, "_meta": meta}
        )
        result = await self._client.session.send_request(
            mcp_types.CallToolRequest(params=params), mcp_types.CallToolResult
        )
        assert bool(result.is_error) == fails, result
        return self._told(((result.meta or {}).get(META_KEY) or {}).get("capabilities") or {})

    async def turn(self, turn: Turn) -> After:
        """Take a turn; return what there is after it."""
        told: dict[str, Any] = {}
        if turn.call is not None and turn.call.has_words:
            told = await self.call(turn.call.tool, turn.words, fails=turn.call.fails)
        _, listed_with_words = await self.list(turn.words)
        if turn.call is not None and not turn.call.has_words:
            await self.call(turn.call.tool, turn.words, fails=turn.call.fails)
        told = told or listed_with_words
        await at_rest(self._gateway, self._upstreams)
        names, now = await self.list(turn.words)
        return After(
            tuple(told.get("activated", ())),
            tuple(told.get("evicted", ())),
            tuple(now["active"]),
            frozenset(name.partition("-server_")[0] for name in names if "-server_" in name),
            tuple(name for name in processes() if name != "office"),
        )

    def _selection(self, words: str) -> dict[str, str]:
        brought = {"capabilities": self.value} if self._is_stateless and self.value else {}
        return {**({"query": words} if words else {}), **brought}

    def _told(self, told: dict[str, Any]) -> dict[str, Any]:
        self.value = told.get("value", self.value)
        return told


async def at_rest(of: AgentServer, seen: dict[str, Upstream]) -> None:
    """Wait until a gateway's upstreams of capabilities are seen and connected, and those that it gave up have ended.

    Args:
        of: the gateway.
        seen: those that it had when this was asked last; changed to those that it has now.
    """
    await capabilities_of(of).switching.settle()
    now = {each.config.name: each for each in upstreams_of(of).upstreams if each.config.capabilities}
    for name, upstream in seen.items():
        if now.get(name) is not upstream:
            await upstream.stop()
    for upstream in now.values():
        await upstream.connect()
        if upstream.snapshot is None:
            await upstream.renewed()
    seen.clear()
    seen.update(now)


@asynccontextmanager
async def conversation(folder: Path, era: str, offered: Offer | None = None, **environ: str) -> AsyncIterator[Talk]:
    """Talk to a gateway of six capabilities, of which four may be on, whose words can be routed."""
    served = gateway(folder, offered or six(), **environ)
    async with Client(served, mode=ERAS[era], timeout=LONG_S) as client:
        await capabilities_of(served).switching.router.wait_until_ready()
        yield Talk(served, client, is_stateless=era == "stateless")
