"""A crowd of clients of both eras, each of which knows what it must see, over gateways of which some are killed."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from agent_utilities.access.token_file import new_token
from tests.debian import program
from tests.fleet.processes.services import RedisServer
from tests.gateway.upstreams.gateway_process import GATEWAY, environ
from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess
from tests.wire.wires import ACCEPT, INITIALIZE, INITIALIZED, LEGACY, jsonrpc, modern_request

SETTINGS = """
[auth]
tokens = "{tokens}"

[profiles.readers]
enabled_tools = ["notes_read_note", "notes_list_notes", "notes_panel_show"]

[[access]]
who = {{ subject = "ann" }}
profile = "all"

[[access]]
who = {{ subject = "bob" }}
profile = "readers"
"""
MAY = {
    "ann": ("notes_list_notes", "notes_panel_show", "notes_write_note", "notes_stray_tool"),
    "bob": ("notes_list_notes", "notes_panel_show"),
}
"""What each may call beside `notes_read_note`; `notes_wipe_notes` is ann's alone."""
DENIED = "notes_wipe_notes"
READY_TOOLS = 8


class Gateways:
    """Gateways that are the same but for their clocks, in processes of their own, over one server, with rules.

    Args:
        folder: for all of it.
        upstream: the URL of the server behind them.
        states: the URL of Redis, for each of them.
        env: of each, further variables.
    """

    def __init__(self, folder: Path, upstream: str, states: Sequence[str], key: str, **env: str) -> None:
        self._folder = folder
        tokens = folder / "tokens.json"
        self.tokens = {who: new_token(tokens, who) for who in MAY}
        (folder / "agent-utilities.toml").write_text(SETTINGS.format(tokens=tokens), encoding="utf-8")
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"notes": {"url": f"{upstream}/mcp"}}}))
        self._env = {"MCP_CONFIG_FILE": str(folder / "agent-utilities.toml"), "MCP_SECRET_KEY": key, **env}
        self._env |= {"MCP_TOOL_SEARCH": "on"}
        self.processes = [self._launched(number, state) for number, state in enumerate(states)]

    def _launched(self, number: int, state: str) -> HttpProcess:
        """Start one, with a clock a minute behind, right or a minute ahead."""
        command = [*GATEWAY, str(self._folder / "mcp.json"), "--name", "fleet", "-t", "http", "-p", "0"]
        clock = {"LD_PRELOAD": _fake_clock(), "FAKETIME": ("-60s", "+0s", "+60s")[number]}
        clock["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
        home = self._folder / f"gateway-{number}"
        return HttpProcess(command, environ(home, **self._env, **clock, MCP_STATE_URL=state), self._folder)

    def until_ready(self) -> list[int]:
        """Return their ports, once each lists what is behind it."""
        for each in self.processes:
            each.wait()
            http = RawHttp(each.url)
            listing = ("GET", "/tools?tool_search=off", [("authorization", f"Bearer {self.tokens['ann']}")])
            while len(http.send(*listing).json["tools"]) < READY_TOOLS:
                assert each.process.poll() is None, each.log
            http.close()
        return [int(each.url.rpartition(":")[2]) for each in self.processes]


def _fake_clock() -> str:
    """Return the library that gives a process another clock; the program of its package starts a further process."""
    program("faketime")
    return str(next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")))


@contextmanager
def gateways(folder: Path, upstream: str, redis: RedisServer, key: str, n: int = 3, **env: str) -> Iterator[Gateways]:
    """Run gateways for the length of a block."""
    run = Gateways(folder, upstream, [redis.url()] * n, key, **env)
    try:
        yield run
    finally:
        for each in run.processes:
            each.process.kill()
        for each in run.processes:
            each.stop()


@dataclass
class Person:
    """One client, which checks every answer by what it alone knows.

    Args:
        number: odd ones have a session of 2025-11-25, even ones speak 2026-07-28.
        who: whose token it has.
        token: that token.
        crowd: whose connections it uses.
    """

    number: int
    who: str
    token: str
    crowd: Crowd
    seen: Counter[str] = field(default_factory=Counter)
    """How many requests ended how: `sent`; then `answered`, `lost` or `later` (told to try again); answers
    are `right`, `apart` (told that Redis does not answer), `unnoticed` (Redis has just lost what it had, and not
    every replica knows) or `wrong: …`."""
    listed: frozenset[str] | None = None
    _session: dict[str, str] = field(default_factory=dict)

    @property
    def has_session(self) -> bool:
        """Whether it has a session of the handshake era."""
        return bool(self.number % 2)

    async def begin(self) -> None:
        """Open its session and call what is to be active in it: another set for each."""
        if not self.has_session:
            return
        while not self._session:
            answer = await self._post(INITIALIZE, [ACCEPT])
            if answer is not None and answer.status_code == 200:
                self._session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
        await self._post(INITIALIZED, [])
        for bit, tool in enumerate(("notes_read_note", *MAY[self.who])):
            if not bit or self.number >> bit & 1:
                while not await self._called(tool):
                    pass

    async def work(self, done: asyncio.Event) -> None:
        """Ask one thing after another until it is done."""
        await self.begin()
        asks = [self._read, self._list, self._denied if self.who == "bob" else self._read]
        asks += [] if self.has_session else [self._search]  # what a search finds is active in a session from then on
        turn = self.number
        while not done.is_set():
            await asks[turn % len(asks)]()
            turn += 1

    # -- what it asks ----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        text = f"{self.number} {random.random()}"
        result = await self._result("tools/call", name="notes_read_note", arguments={"text": text})
        if result is not None:
            self._judge(f"read {text}" in json.dumps(result), f"read {text} gave {result}")

    async def _list(self) -> None:
        began_s = time.monotonic()
        result = await self._result("tools/list")
        if result is None:
            return
        names = frozenset(tool["name"] for tool in result["tools"])
        told = result["_meta"]["agent-utilities/selection"]
        if told.get("state", {}).get("cause"):
            self.seen["apart"] += 1
        elif names != self.listed and began_s < self.crowd.is_noticed_s:
            self.seen["unnoticed"] += 1
        else:
            self.listed = self.listed or names
            self._judge(names == self.listed, f"{sorted(self.listed)} became {sorted(names)}")
        self._judge_seen(names)

    async def _search(self) -> None:
        result = await self._result("tools/call", name="tool_search", arguments={"query": "wipe all notes"})
        if result is not None:
            found = json.dumps(result)
            self._judge(self.who == "ann" or (DENIED not in found and "LEAKED" not in found), found)

    async def _denied(self) -> None:
        answer = await self._answer("tools/call", name=DENIED, arguments={})
        if answer is not None:
            self._judge("LEAKED" not in json.dumps(answer) and _is_refused(answer), f"{DENIED} gave {answer}")

    async def _called(self, tool: str) -> bool:
        answer = await self._answer("tools/call", name=tool, arguments={})
        return answer is not None and not _is_refused(answer)

    def _judge_seen(self, names: frozenset[str]) -> None:
        own = {name for name in names if name.startswith("notes_")}
        if self.who == "bob" and not own <= {"notes_read_note", *MAY["bob"]}:
            self.seen[f"wrong: bob is shown {sorted(own)}"] += 1

    def _judge(self, is_right: bool, why: str) -> None:
        self.seen["right" if is_right else f"wrong: {why[:500]}"] += 1

    # -- how -------------------------------------------------------------------------------------------------------

    async def _result(self, method: str, **params: Any) -> Mapping[str, Any] | None:
        answer = await self._answer(method, **params)
        if answer is None or "result" not in answer:
            if answer is not None:
                self.seen[f"wrong: {method} gave {json.dumps(answer)[:500]}"] += 1
            return None
        result: Mapping[str, Any] = answer["result"]
        return result

    async def _answer(self, method: str, **params: Any) -> Mapping[str, Any] | None:
        """Return the message that answers a request; None where there is none, which is counted."""
        if self.has_session:
            reply = await self._post(jsonrpc(method, params), [ACCEPT])
        else:
            body, headers = modern_request(method, params)
            reply = await self._post(body, headers)
        if reply is None:
            return None
        if reply.status_code != 200:
            self.seen[f"wrong: {method} gave {reply.status_code} {reply.text[:200]}"] += 1
            return None
        text = reply.text
        if reply.headers["content-type"].startswith("text/event-stream"):
            text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and '"id":' in line)
        message: Mapping[str, Any] = json.loads(text)
        return message

    async def _post(self, body: Any, headers: Sequence[tuple[str, str]]) -> httpx2.Response | None:
        """Send once, and return what came; None where the request was lost, or is to be sent later."""
        self.seen["sent"] += 1
        given = {**dict(headers), **self._session, "authorization": f"Bearer {self.token}"}
        try:
            reply = await self.crowd.web.post("/mcp", json=body, headers=given)
        except httpx2.TransportError:
            self.seen["lost"] += 1
            return None
        if reply.status_code in (502, 504):
            self.seen["lost"] += 1
            return None
        if reply.status_code == 503 and "retry-after" in reply.headers:
            self.seen["later"] += 1
            return None
        self.seen["answered"] += 1
        return reply


def _is_refused(answer: Mapping[str, Any]) -> bool:
    return "error" in answer or answer["result"].get("isError") is True


class Crowd:
    """Many clients at once, for the length of an `async with`.

    Args:
        url: of the balancer.
        tokens: of each who.
        n: how many.
    """

    def __init__(self, url: str, tokens: Mapping[str, str], n: int) -> None:
        self.web = httpx2.AsyncClient(
            base_url=url, timeout=120, limits=httpx2.Limits(max_connections=n, max_keepalive_connections=n)
        )
        whose = ("ann", "ann", "bob", "bob")
        self.people = [Person(i, whose[i % 4], tokens[whose[i % 4]], self) for i in range(n)]
        self.is_noticed_s = -math.inf
        self._done = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Crowd:
        self._tasks = [asyncio.create_task(each.work(self._done)) for each in self.people]
        return self

    async def __aexit__(self, *args: object) -> None:
        self._done.set()
        await asyncio.gather(*self._tasks)
        await self.web.aclose()

    def redis_loses(self, how: Callable[[], object]) -> None:
        """Have Redis lose what it has, which each replica is to notice within five seconds."""
        how()
        self.is_noticed_s = time.monotonic() + 5

    async def until_each_got(self, n_more: int) -> None:
        """Return once each got so many further right answers."""
        goals = [each.seen["right"] + n_more for each in self.people]
        while any(each.seen["right"] < goal for each, goal in zip(self.people, goals, strict=True)):
            for task in self._tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)

    @property
    def seen(self) -> Counter[str]:
        """What all of them saw."""
        return sum((each.seen for each in self.people), Counter())

    @property
    def n_unanswered(self) -> int:
        """How many requests ended without an answer and without word of it."""
        return self.seen["sent"] - self.seen["answered"] - self.seen["lost"] - self.seen["later"]

    @property
    def wrong(self) -> list[str]:
        """What none of them should have seen."""
        return [what for what in self.seen if what.startswith("wrong")]
