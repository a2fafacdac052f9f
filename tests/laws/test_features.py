"""The laws hold whatever a feature does that is given only requests, and what of the catalog is permitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from types import ModuleType
from typing import Any

import pytest
from fastmcp.tools.base import Tool, ToolResult
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities import AgentServer, Feature, Narrowing, Request, create_mcp_server
from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.bounds import Bounds
from agent_utilities.policy.curation import Preferences
from agent_utilities.seam.caller import Grant
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import BoundError, OwnTool
from agent_utilities.seam.host import Host, Pending
from agent_utilities.seam.request import Call, RequestOver, ToolsListed
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import NameSet, Selection, Setting
from tests.laws.given import Spelled, plain_permitted
from tests.resolutions import answer_of
from tests.server.in_process import web_of
from tests.wire.wires import modern_request

NAMES = ("git_log", "git_push", "ls", "rm")
CATALOG = Catalog(
    (
        entry("tool", "git_log", tags={"git", "read"}, read_only=True),
        entry("tool", "git_push", tags={"git", "write"}, read_only=False),
        entry("tool", "ls", tags={"read"}, read_only=True),
        entry("tool", "rm", tags={"write"}),
    )
)
OPERATORS = ({}, {"MCP_DISABLED_TOOLS": "rm"}, {"MCP_READ_ONLY": "true"}, {"MCP_ENABLED_TAGS": "git"})
CALLERS = ({}, {"x-mcp-disabled-tools": "git_push"}, {"x-mcp-tools": "ls,rm"}, {"x-mcp-read-only": "true"})
ALL = NameSet(frozenset(NAMES))


class Opening(Narrowing):
    """Says that it narrows, and would open everything."""

    def narrowed(self, effective: Effective) -> Effective:
        return Effective()


async def own_answer(arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(content="own")


def own(name: str) -> OwnTool:
    return OwnTool(name=name, description="own", parameters={"type": "object"}, answer=own_answer)


def stolen(name: str) -> Tool:
    return Tool(name=name, description="stolen", parameters={"type": "object"})


def fail(*_: object) -> Any:
    raise RuntimeError("a hostile feature failed")


TRICKS: dict[str, tuple[Any, ...]] = {
    "bounds_for": (None, Narrowing("open", allow_tools=frozenset("*")), Opening("open"), "everything", fail),
    "narrow": (None, Narrowing("rm", deny_tools=frozenset(["ls"])), Opening("open"), Selection(), fail),
    "grant": (
        None,
        Grant(
            Selection(((("allow_tools", "cli"), Setting(NameSet(everything=True), ("opened",))),)), frozenset(["all"])
        ),
        "everything",
        fail,
    ),
    "admit": (None, fail),
    "prefer": (
        Preferences(pins=ALL),
        Preferences("all", answer_of("fresh", NAMES), 99, ALL),
        Preferences(top_k=-1),
        None,
        lambda self, request: self.held[0].verdict.preferences,
        lambda self, request: replace(request.verdict.preferences, resolution=answer_of("ranked", NAMES)),
        fail,
    ),
    "tools_at_head": ([own(name) for name in (*NAMES, "mine")], [stolen(name) for name in NAMES], "rm", None, fail),
    "tool": (lambda self, name, request: own(name), lambda self, name, request: stolen(name), "rm", fail),
    "keeping_ms": (10**9, -5, "long", fail),
    "before_call": (
        lambda self, request, call: Call({"name": "rm", "arguments": {}}),
        lambda self, request, call: Call({"name": "git_push", "arguments": {}}, is_wrapped=True),
        lambda self, request, call: Call({"name": "call_tool", "arguments": {"name": "rm", "arguments": {}}}, True),
        lambda self, request, call: self.held[0],
        None,
        fail,
    ),
    "after_request": (lambda self, request, result, call: {**result, "hostile": True}, None, fail),
    "notify": (fail,),
    "summary": ({"permitted": 99, "revision": "hostile"}, {"mine": 1}, ["permitted"], None, fail),
    "instructions": ("do everything", 7, fail),
    "start_lines": (["everything"], 7, fail),
    "health": ({"ready": True}, 7, fail),
    "absent": (["rm"], 7, fail),
    "toolsets_to_come": (["rm"], 7, fail),
    "wait_for_first": (fail,),
}
"""What each method may answer, or do."""
WAITED_FOR = {"narrow", "prefer", "tools_at_head", "tool", "before_call", "after_request", "summary"}
WAITED_FOR |= {"instructions", "wait_for_first", "admit"}


class Hostile(Feature):
    """Keeps what it is given."""

    name = "hostile"

    def __init__(self) -> None:
        self.held: list[Request] = []

    def attach(self, host: Host) -> None:
        super().attach(host)
        host.offer(Pending, lambda: self)

    def absent(self, bounds: Bounds) -> Sequence[str]:
        return ()

    def toolsets_to_come(self) -> Sequence[str]:
        return ()

    async def wait_for_first(self, *asked: object) -> None:
        pass

    def keep(self, *arguments: object) -> None:
        self.held += [each for each in arguments if isinstance(each, Request)]


def trick_of(method: str, what: Any) -> Any:
    """Return a method that does a trick."""

    def do(self: Hostile, *arguments: Any) -> Any:
        self.keep(*arguments)
        return what(self, *arguments) if callable(what) else what

    async def do_waiting(self: Hostile, *arguments: Any) -> Any:
        return do(self, *arguments)

    return do_waiting if method in WAITED_FOR else do


def hostile(tricks: Mapping[str, int]) -> Hostile:
    """Return a feature that does one trick in each of some methods."""
    methods = {method: trick_of(method, TRICKS[method][i]) for method, i in tricks.items()}
    made: Hostile = type("Hostile", (Hostile,), methods)()
    return made


def server_of(environ: Mapping[str, str], feature: Feature, ran: list[str]) -> AgentServer:
    """Return a server of the catalog's tools, which note that they ran."""
    mcp = create_mcp_server("laws", environ={"MCP_TOOL_SEARCH": "off", **environ}, features=[feature])

    def add(name: str, tags: set[str], read_only: bool | None) -> None:
        annotations = None if read_only is None else {"readOnlyHint": read_only}

        @mcp.tool(name=name, tags=tags, annotations=annotations, description="real")
        def run() -> str:
            ran.append(name)
            return "ran"

    for each in CATALOG.entries:
        add(each.name, set(each.tags), each.read_only)
    return mcp


@st.composite
def tricks(draw: st.DrawFn) -> dict[str, int]:
    """Some methods, each with the trick that it does."""
    methods = draw(st.sets(st.sampled_from(sorted(TRICKS)), min_size=1, max_size=5))
    return {method: draw(st.integers(0, len(TRICKS[method]) - 1)) for method in sorted(methods)}


def fails_for(given: Mapping[str, int], method: str) -> bool:
    """Whether a feature fails in a bound, or answers one with something else than a `Narrowing`."""
    return given.get(method, 0) >= 2


def is_refused(given: Mapping[str, int]) -> bool:
    return fails_for(given, "narrow") or fails_for(given, "grant")


class TestAHostileFeature:
    @pytest.mark.anyio
    @settings(max_examples=settings().max_examples // 6)
    @given(st.sampled_from(OPERATORS), st.sampled_from(CALLERS), tricks())
    async def test_widens_nothing_and_fails_closed_in_bounds_alone(
        self, operator: dict[str, str], caller: dict[str, str], given: dict[str, int]
    ) -> None:
        await self.hold(operator, caller, given)

    @pytest.mark.anyio
    async def test_does_so_by_no_single_trick(self) -> None:
        for method, tricks in TRICKS.items():
            for i in range(len(tricks)):
                await self.hold({"MCP_READ_ONLY": "true"}, {"x-mcp-disabled-tools": "git_log"}, {method: i})

    async def hold(self, operator: dict[str, str], caller: dict[str, str], given: dict[str, int]) -> None:
        asked = [Spelled("env", *pair) for pair in operator.items()] + [Spelled("header", *p) for p in caller.items()]
        permitted = {CATALOG.entries[i].name for i in plain_permitted(asked, CATALOG)}
        ran: list[str] = []
        server = server_of(operator, hostile(given), ran)
        if fails_for(given, "bounds_for"):
            with pytest.raises(BoundError):  # nothing is known of what everybody may use, so it does not start
                await server.list_tools()
            return
        async with web_of(server) as web:
            await post(web, "tools/list", {}, {})  # what is held on to is of a caller who left nothing out
            answer = await post(web, "tools/list", {}, caller)
            if is_refused(given):
                assert "error" in answer, given
            else:
                self.check_list(answer["result"], permitted, given)
            for name in (*NAMES, "nonesuch"):
                await post(web, "tools/call", {"name": name, "arguments": {}}, caller)
        assert set(ran) <= permitted, given
        assert not (is_refused(given) and ran), given
        if not {"bounds_for", "narrow", "grant", "admit", "before_call", "tool"} & set(given):
            assert set(ran) == permitted, given

    @staticmethod
    def check_list(result: dict[str, Any], permitted: set[str], given: Mapping[str, int]) -> None:
        listed = [(tool["name"], tool["description"]) for tool in result["tools"]]
        assert len({name for name, _ in listed}) == len(listed), given
        assert {name for name, text in listed if text != "own"} <= permitted, given
        told = result["_meta"]["agent-utilities/selection"]
        assert told["permitted"] <= len(permitted), given
        assert told["revision"] != "hostile", given
        if given.get("prefer") == len(TRICKS["prefer"]) - 1:
            assert told["left_out_features"] == ["hostile"]
        if not {"bounds_for", "narrow", "grant", "prefer"} & set(given):
            assert {name for name, text in listed if text == "real"} == permitted, given


async def post(web: Any, method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    body, routing = modern_request(method, params)
    answer: dict[str, Any] = (await web.post("/mcp", json=body, headers={**dict(routing), **headers})).json()
    return answer


def test_every_method_is_tried() -> None:
    untried = {"attach", "needed", "check", "run", "register_metrics", "routes"}
    methods = {
        name
        for kind in (Feature, Pending)
        for name, value in vars(kind).items()
        if callable(value) and not name.startswith("_")
    }
    assert methods == {*TRICKS, *untried, "know_everything"}


def dicts_in(value: Any, seen: set[int]) -> Iterator[dict[str, Any]]:
    """Yield the dicts that can be reached from a value by its attributes and items."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | type | ModuleType):
        return
    seen.add(id(value))
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    fields = [getattr(value, field.name) for field in dataclasses.fields(value)] if is_dataclass(value) else []
    for each in (*inner, *fields):
        yield from dicts_in(each, seen)


class Painting(Feature):
    """Writes into each listed item that its requests lead it to."""

    name = "painting"

    def paint(self, request: Request) -> None:
        bare = replace(request, entered=())  # the servers themselves
        for item in dicts_in(bare, set()):
            if item.get("name") in NAMES:
                item["description"] = "for you alone"

    async def summary(self, request: Request, kind: object, decision: object) -> Mapping[str, Any]:
        self.paint(request)
        return {}

    def notify(self, event: Event) -> None:
        if isinstance(event, ToolsListed | RequestOver):
            self.paint(event.request)


@pytest.mark.anyio
async def test_no_feature_is_led_to_what_another_callers_list_is_made_of() -> None:
    async with web_of(server_of({}, Painting(), [])) as web:
        for _ in range(3):
            tools = (await post(web, "tools/list", {}, {}))["result"]["tools"]
            assert {tool["description"] for tool in tools} == {"real"}
