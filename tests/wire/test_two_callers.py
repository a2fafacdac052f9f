"""Callers at once, with other rights or other bounds: each gets what it would get alone, to the byte.

What is compared is a caller's whole transcript on a server of its own with the same steps on a server that others
use in between. Standard streams have one caller, so that they have no part here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastmcp.server.auth import AuthContext
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from starlette.testclient import TestClient

from agent_utilities import AgentServer, create_mcp_server
from tests.every import every
from tests.server.servers import running
from tests.wire.http_raw import Headers, RawHttp
from tests.wire.wires import HTTP_WIRES, Answer, Caller, LegacyCaller, ModernCaller, SseCaller, modern_request

USERS = {"admin": {"client_id": "a", "scopes": ["admin"]}, "user": {"client_id": "u", "scopes": []}}
WIRES = ("memory", *HTTP_WIRES)


def admin_only(context: AuthContext) -> bool:
    return context.token is not None and "admin" in context.token.scopes


def staff_server(folder: Path) -> AgentServer:
    """A server with something of every kind for everybody, and something for administrators alone."""
    environ = {"MCP_GRAPH_FOLDER": str(folder), "MCP_RANKER": "off", "MCP_GRAPH_DEADLINE_MS": "20000"}
    mcp = create_mcp_server("staff", environ=environ, auth=StaticTokenVerifier(tokens=USERS))
    for name, tag, auth in (
        ("read_plan", "read", None),
        ("count_staff", "read", admin_only),
        ("write_plan", "write", None),
        ("fire_staff", "write", admin_only),
        ("hire_staff", "write", None),
    ):
        mcp.tool(_answering(name), name=name, tags={tag}, auth=auth)
    mcp.prompt(_answering("agenda"), name="agenda", tags={"read"})
    mcp.prompt(_answering("layoffs"), name="layoffs", tags={"write"}, auth=admin_only)
    mcp.resource("desk://open", tags={"read"})(_answering("open"))
    mcp.resource("desk://boss", tags={"write"}, auth=admin_only)(_answering("boss"))
    return mcp


def _answering(text: str) -> Callable[[], str]:
    return lambda: f"answer of {text}"


@dataclass(frozen=True)
class Person:
    """One caller, and in plain words what it must see.

    Args:
        query: its selection in the URL, with the `?`.
        headers: its token, and its selection in headers.
        tools: what its list shows.
        answers: what its list shows for the words `staff`.
        prompts, resources: what those lists show.
    """

    query: str
    headers: tuple[tuple[str, str], ...]
    tools: tuple[str, ...]
    answers: tuple[str, ...]
    prompts: tuple[str, ...]
    resources: tuple[str, ...]


PEOPLE: Mapping[str, Person] = {
    "boss": Person(
        "?disabled_tags=read",
        (("authorization", "Bearer admin"),),
        ("write_plan", "fire_staff", "hire_staff"),
        ("fire_staff", "hire_staff"),
        ("layoffs",),
        ("desk://boss",),
    ),
    "clerk": Person(
        "",
        (("authorization", "Bearer user"), ("x-mcp-exclude-tools", "write_plan")),
        ("read_plan", "hire_staff"),
        ("hire_staff",),
        ("agenda",),
        ("desk://open",),
    ),
    # The rights of the boss, and other bounds.
    "auditor": Person(
        "?tags=read",
        (("authorization", "Bearer admin"),),
        ("read_plan", "count_staff"),
        ("count_staff",),
        ("agenda",),
        ("desk://open",),
    ),
    # The bounds of the boss, and other rights.
    "temp": Person(
        "?disabled_tags=read",
        (("authorization", "Bearer user"),),
        ("write_plan", "hire_staff"),
        ("hire_staff",),
        (),
        (),
    ),
}


def _call(name: str) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": name, "arguments": {}}


STEPS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("prompts/list", {}),
    _call("fire_staff"),
    ("resources/list", {}),
    _call("read_plan"),
    ("prompts/get", {"name": "layoffs"}),
    _call("hire_staff"),
    ("resources/read", {"uri": "desk://boss"}),
    ("prompts/get", {"name": "agenda"}),
    _call("write_plan"),
    ("tools/list", {}),
]
Transcript = list[tuple[str, int, bytes]]


class MemoryCaller:
    """Streamable HTTP, 2026-07-28, with no socket between: the application is called in this process."""

    def __init__(self, client: TestClient, query: str, headers: Headers) -> None:
        self._client, self._url, self._headers = client, f"/mcp{query}", dict(headers)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> Answer:
        """Send a request and return its answer."""
        request, headers = modern_request(method, params)
        reply = self._client.post(self._url, json=request, headers={**dict(headers), **self._headers})
        return Answer(reply.status_code, reply.content)


class Desk:
    """A server of its own, and ways to call it.

    Args:
        wire: how it is called.
        stack: ends it, and closes what was connected.
        folder: for its graph.
    """

    def __init__(self, wire: str, stack: ExitStack, folder: Path) -> None:
        self._wire, self._stack, server = wire, stack, staff_server(folder)
        if wire == "memory":
            app = server.http_app(host_origin_protection=False, json_response=True)
            self._memory = stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8001"))
        else:
            self._url = stack.enter_context(running(server))

    def connect(self, person: Person, words: str = "") -> Caller:
        """Return a connection of a person's own, for its list as it is or as words narrow it."""
        query = person.query + (f"{'&' if person.query else '?'}q={words}" if words else "")
        if self._wire == "memory":
            return MemoryCaller(self._memory, query, person.headers)
        http = self._stack.enter_context(closing(RawHttp(self._url)))
        if self._wire == "modern":
            return ModernCaller(http, query, person.headers)
        make = SseCaller if self._wire == "sse" else LegacyCaller
        return self._stack.enter_context(closing(make(http, query, person.headers)))


class Visit:
    """One person's steps on a server, and what they answered."""

    def __init__(self, desk: Desk, person: Person) -> None:
        self._plain, self._asking = desk.connect(person), desk.connect(person, "staff")
        self.transcript: Transcript = []

    def take(self, method: str, params: dict[str, Any]) -> None:
        """Take a step; a list of tools is asked for as it is, and for the words."""
        for caller, label in ((self._plain, method), (self._asking, f"{method} for staff")):
            if caller is self._plain or method == "tools/list":
                answer = caller.ask(method, params)
                self.transcript.append((label, answer.status, answer.raw))


def alone(wire: str, folder: Path, person: Person) -> Transcript:
    """Return a person's transcript on a server that nobody else uses."""
    with ExitStack() as stack:
        visit = Visit(Desk(wire, stack, folder), person)
        for step in STEPS:
            visit.take(*step)
        return visit.transcript


def by_turns(visits: Mapping[str, Visit]) -> None:
    """Let all take each step in turn."""
    for step in STEPS:
        for visit in visits.values():
            visit.take(*step)


def at_once(visits: Mapping[str, Visit]) -> None:
    """Let all take each step at one moment, each in a thread of its own."""
    barrier, failures = threading.Barrier(len(visits), timeout=60), list[BaseException]()

    def walk(visit: Visit) -> None:
        try:
            for step in STEPS:
                barrier.wait()
                visit.take(*step)
        except BaseException as error:
            barrier.abort()
            failures.append(error)

    threads = [threading.Thread(target=walk, args=(visit,)) for visit in visits.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


Together = Mapping[tuple[str, str], Mapping[str, Transcript]]
"""What each of several got on one server, by wire and way."""


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, str], Transcript]:
    """What each gets alone, by wire and name."""
    return {
        (wire, name): alone(wire, tmp_path_factory.mktemp(name), person)
        for wire in WIRES
        for name, person in PEOPLE.items()
    }


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Together:
    """What each gets on one server with the others, by turns and then at once."""
    seen: dict[tuple[str, str], Mapping[str, Transcript]] = {}
    for wire, way in product(WIRES, (by_turns, at_once)):
        with ExitStack() as stack:
            shared = Desk(wire, stack, tmp_path_factory.mktemp(way.__name__))
            visits = {name: Visit(shared, person) for name, person in PEOPLE.items()}
            way(visits)
            seen[wire, way.__name__] = {name: visit.transcript for name, visit in visits.items()}
    return seen


@every("wire", WIRES)
@every("way", ["by_turns", "at_once"])
@every("name", PEOPLE)
def test_each_gets_what_it_gets_alone_to_the_byte(
    lone: Mapping[tuple[str, str], Transcript],
    together: Together,
    wire: str,
    way: str,
    name: str,
) -> None:
    assert together[wire, way][name] == lone[wire, name]


def _lists(transcript: Transcript, label: str, kind: str) -> set[tuple[str, ...]]:
    """Return every list that a transcript shows under a label."""
    results = [Answer(status, raw).result for step, status, raw in transcript if step == label]
    return {tuple(item.get("uri") or item["name"] for item in result[kind]) for result in results}


@every("wire", WIRES)
@every("way", ["by_turns", "at_once"])
@every("name", PEOPLE)
def test_each_sees_exactly_its_own(together: Together, wire: str, way: str, name: str) -> None:
    seen, person = together[wire, way][name], PEOPLE[name]
    assert {
        "tools": _lists(seen, "tools/list", "tools"),
        "answers": _lists(seen, "tools/list for staff", "tools"),
        "prompts": _lists(seen, "prompts/list", "prompts"),
        "resources": _lists(seen, "resources/list", "resources"),
    } == {
        "tools": {person.tools},
        "answers": {person.answers},
        "prompts": {person.prompts},
        "resources": {person.resources},
    }


@every("wire", WIRES)
@every("way", ["by_turns", "at_once"])
@every("name", PEOPLE)
def test_each_is_served_exactly_what_it_sees(together: Together, wire: str, way: str, name: str) -> None:
    person, served = PEOPLE[name], set[str]()
    for (method, params), answer in zip(STEPS, _plain_answers(together[wire, way][name]), strict=True):
        if "/list" not in method and not answer.refused:
            served.add(params.get("name") or params["uri"])
    asked = {params.get("name") or params["uri"] for method, params in STEPS if "/list" not in method}
    assert served == asked & {*person.tools, *person.prompts, *person.resources}


def _plain_answers(transcript: Transcript) -> list[Answer]:
    return [Answer(status, raw) for label, status, raw in transcript if not label.endswith("for staff")]
