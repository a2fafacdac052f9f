"""What a feature raises, waits for or hands over fails that feature alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx2
import pytest
from fastmcp.server.auth import AuthProvider
from fastmcp.tools.base import ToolResult
from prometheus_client import CollectorRegistry, Gauge

from agent_utilities import AgentServer, Feature, create_mcp_server
from agent_utilities.page import site
from agent_utilities.page.feature import Page
from agent_utilities.policy.curation import Preferences
from agent_utilities.seam.feature import BoundError, OwnTool, Refusal
from agent_utilities.seam.host import Host, Pending, QuotaSource, StartLink
from agent_utilities.seam.panel import Panel, Table
from agent_utilities.seam.request import Call, Request
from tests.server.in_process import web_of
from tests.wire.wires import modern_request

pytestmark = pytest.mark.anyio

WAITED_FOR = ("tools_at_head", "tool", "before_call", "after_request", "summary", "instructions", "prefer")
AT_ONCE = ("keeping_ms", "notify", "start_lines", "health", "register_metrics", "routes")
LOOKED_UP = "nonesuch"


class Panic(BaseException):
    """What Rust code raises where it panics: no `Exception`."""


RAISED: tuple[BaseException, ...] = (
    SystemExit(3),
    Panic("index out of bounds"),
    asyncio.CancelledError(),
    BaseExceptionGroup("of a task group", [SystemExit(3)]),
)


def feature(**methods: Any) -> Feature:
    made: Feature = type("Made", (Feature,), {"name": "bad", "limit_s": 0.05, **methods})()
    return made


def raising(error: BaseException) -> Callable[..., Any]:
    def method(*_: object) -> Any:
        raise error

    return method


def server_of(*features: Feature) -> AgentServer:
    """Return a server of one tool that is permitted and one that is not."""
    server = create_mcp_server("x", environ={"MCP_DISABLED_TOOLS": "rm"}, features=features)
    for name in ("ls", "rm"):
        server.tool(name=name)(lambda: "done")
    return server


async def post(web: Any, method: str, **params: Any) -> dict[str, Any]:
    body, routing = modern_request(method, params)
    answer: dict[str, Any] = (await web.post("/mcp", json=body, headers=dict(routing))).json()
    return answer


async def call(web: Any, name: str) -> dict[str, Any]:
    return await post(web, "tools/call", name=name, arguments={})


async def serves(server: AgentServer) -> None:
    """Check that a server answers as if it had no feature that fails."""
    async with web_of(server) as web, asyncio.timeout(10):
        assert "result" in await post(web, "server/discover")
        assert [tool["name"] for tool in (await post(web, "tools/list"))["result"]["tools"]] == ["ls"]
        assert not (await call(web, "ls"))["result"].get("isError")
        assert (await call(web, LOOKED_UP))["result"]["isError"]
        for path in ("/tools", "/ready", "/metrics"):
            assert (await web.get(path)).status_code == 200


class TestWhatIsNoException:
    async def test_leaves_a_feature_out_as_any_other_failure_does(self) -> None:
        for error in RAISED:
            await serves(server_of(*(feature(name=each, **{each: raising(error)}) for each in (*WAITED_FOR, *AT_ONCE))))

    async def test_refuses_where_it_comes_from_a_bound(self) -> None:
        for error in RAISED:
            for method in ("narrow", "grant"):
                async with web_of(server_of(feature(**{method: raising(error)}))) as web:
                    assert "the bounds of bad are not known" in (await post(web, "tools/list"))["error"]["message"]
                    assert (await web.get("/ready")).json()["status"] == "ready"
            async with web_of(server_of(feature(admit=raising(error)))) as web:
                assert (await call(web, "ls"))["result"]["isError"]
            with pytest.raises(BoundError):
                await server_of(feature(bounds_for=raising(error))).list_tools()

    async def test_of_a_tool_fails_its_call_alone(self) -> None:
        for error in RAISED:
            await self.fails_alone(error)

    async def fails_alone(self, error: BaseException) -> None:
        async def answer(arguments: Mapping[str, Any]) -> ToolResult:
            raise error

        def fail() -> None:
            raise error

        async def tool(self: Feature, name: str, request: object) -> OwnTool | None:
            own = OwnTool(name="own", description="own", parameters={"type": "object"}, answer=answer)
            return own if name == "own" else None

        server = server_of(feature(tool=tool))
        server.tool(name="author's")(fail)
        async with web_of(server) as web:
            for name in ("own", "author's"):
                assert "error" in await call(web, name)
            assert not (await call(web, "ls"))["result"].get("isError")

    async def test_of_work_beside_the_server_ends_that_work_alone(self) -> None:
        for error in RAISED:
            fail = raising(error)

            async def run(self: Feature, fail: Callable[..., Any] = fail) -> None:
                fail()

            await serves(server_of(feature(run=run)))
            await serves(server_of(feature(run=fail)))  # which is no coroutine at all

    async def test_a_request_that_is_cancelled_is_not_taken_for_a_failure(self) -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def summary(self: Feature, *_: object) -> Mapping[str, Any]:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
            return {}

        async with web_of(server_of(feature(summary=summary, limit_s=None))) as web:
            asking = asyncio.create_task(post(web, "tools/list"))
            await begun.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert ended.is_set()


async def never(*_: object) -> None:
    await asyncio.Event().wait()


class TestNoAnswer:
    async def test_in_time_leaves_a_feature_out(self) -> None:
        await serves(server_of(*(feature(name=each, **{each: never}) for each in WAITED_FOR)))


class TestValues:
    async def test_of_a_feature_are_apart_from_the_servers_own_whatever_its_name(self) -> None:
        async def narrow(self: Feature, request: Request) -> None:
            request.values[self.name] = 5

        for name in ("listed", "relayed", "unfit", "left_out", "upstreams", "tool of task"):
            await serves(server_of(feature(name=name, narrow=narrow)))


class TestPreferencesOfAWrongType:
    async def test_leave_their_feature_out_and_no_list(self) -> None:
        for wrong in ({"top_k": "5"}, {"top_k": 0.5}, {"pins": "ls"}, {"deferral": None}, {"resolution": "all"}):

            async def prefer(self: Feature, request: object, wrong: Mapping[str, Any] = wrong) -> Preferences:
                return Preferences(**wrong)

            await serves(server_of(feature(prefer=prefer)))


CIRCLE: dict[str, Any] = {}
CIRCLE["within"] = CIRCLE
UNWRITABLE: tuple[object, ...] = (object(), {1}, b"\xff", CIRCLE, {object(): 1})


def saying(value: object, *methods: str) -> Feature:
    """Return a feature that says a value by some methods."""

    async def after_request(self: Feature, request: object, result: dict[str, Any], call: object) -> dict[str, Any]:
        return {**result, "mine": value}

    async def summary(self: Feature, *_: object) -> Mapping[str, Any]:
        return {"mine": value}

    def health(self: Feature) -> Mapping[str, Any]:
        return {"mine": value}

    every = {"after_request": after_request, "summary": summary, "health": health}
    return feature(**{method: every[method] for method in methods})


class TestWhatCanNotBeWritten:
    """Over stdio it hung its request and ended the server, over HTTP it was half a response."""

    async def test_leaves_its_feature_out(self) -> None:
        for value in UNWRITABLE:
            await serves(server_of(saying(value, "after_request", "summary", "health")))

    async def test_is_what_json_has_no_word_for_too(self) -> None:
        for value in (float("nan"), "\ud800"):
            await serves(server_of(saying(value, "summary", "health")))

    async def test_of_routes_leaves_the_others_where_they_are(self) -> None:
        for route in (object(), None, "/path"):
            async with web_of(server_of(feature(routes=lambda self, route=route: [route]))) as web:
                assert (await web.get("/nothing/there")).status_code == 404

    async def test_a_result_that_is_half_changed_when_its_feature_fails_is_as_it_was(self) -> None:
        async def after_request(self: Feature, request: object, result: dict[str, Any], call: object) -> Any:
            result.setdefault("content", []).append({"type": "text", "text": "half"})
            result["isError"] = True
            raise RuntimeError

        async with web_of(server_of(feature(after_request=after_request))) as web:
            result = (await call(web, "ls"))["result"]
        assert [each["text"] for each in result["content"]] == ["done"]
        assert not result.get("isError")


class TestHealth:
    async def test_says_what_the_server_itself_says_whatever_a_feature_does(self) -> None:
        said = {"status": "ok", "server": "another", "warnings": ["none"], "mine": 1}
        async with web_of(server_of(feature(health=lambda self: said))) as web:
            answer = await web.get("/ready")
        assert answer.status_code == 200
        assert {"status": "ready", "server": "x", "mine": 1}.items() <= answer.json().items()


class TestMetrics:
    async def test_that_fail_are_left_out_with_none_of_the_others(self) -> None:
        def register_metrics(self: Feature, registry: CollectorRegistry) -> None:
            Gauge("mine_that_fails", "Fails.", registry=registry).set_function(lambda: 1 / 0)
            Gauge("mine", "Is there.", registry=registry)
            Gauge("mcp_requests_total", "The server's own.", registry=registry)

        async with web_of(server_of(feature(register_metrics=register_metrics))) as web:
            await post(web, "tools/list")
            answer = await web.get("/metrics")
        assert answer.status_code == 200
        assert "\nmine 0.0" in answer.text
        assert "\nmcp_requests_total{" in answer.text
        assert "mine_that_fails" not in answer.text


def offering(kind: Any, make: Callable[[], Any]) -> Feature:
    def attach(self: Feature, host: Host) -> None:
        Feature.attach(self, host)
        host.offer(kind, make)

    return feature(name="", attach=attach)


async def panels_of(*panels: Any) -> list[httpx2.Response]:
    """Return the page of calls, and what a panel named `bad` answers as a page, as JSON and as CSV."""
    server = server_of(*(offering(Panel, each) for each in panels))
    async with web_of(server) as web:
        key = next(each for each in server.features if isinstance(each, Page)).key
        await web.get(f"/?key={key}")
        return [await web.get(f"/page/{path}") for path in ("calls", "bad", "bad?format=json", "bad?format=csv")]


class TestOffers:
    async def test_one_that_fails_is_missing_and_none_of_the_others(self) -> None:
        def fail() -> Any:
            raise SystemExit(3)

        await serves(server_of(offering(Pending, fail), offering(StartLink, fail)))
        calls, _, as_json, _ = await panels_of(fail, lambda: "no panel", lambda: Panel("bad", "Good", rows))
        assert (calls.status_code, as_json.json()) == (200, {"t": [{"a": 1}]})

    async def test_one_without_which_more_would_be_permitted_fails_who_asks_for_it(self) -> None:
        def fail() -> Any:
            raise RuntimeError

        server = server_of()
        for kind in (AuthProvider, QuotaSource):
            server.offer(kind, fail)
            with pytest.raises(RuntimeError):
                server.offered(kind)


async def rows(*_: object) -> dict[str, Any]:
    return {"tables": {"t": Table(("a",), [(1,)])}, "reader": None, "panels": [], "form_key": ""}


class TestPanels:
    async def test_one_that_shows_no_tables_or_nothing_in_time_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def nothing(*_: object) -> Any:
            return None

        async def no_tables(*_: object) -> Any:
            return {}

        async def leaves(*_: object) -> Any:
            raise SystemExit(3)

        monkeypatch.setattr(site, "_LOOK_S", 0.05)
        for look in (nothing, no_tables, leaves, never):
            calls, *bad = await panels_of(lambda look=look: Panel("bad", "Bad", look))
            assert (calls.status_code, [each.status_code for each in bad]) == (200, [500, 500, 500])

    async def test_one_changes_nothing_of_the_page_but_its_tables(self) -> None:
        _, shown, *_ = await panels_of(lambda: Panel("bad", "Bad", rows))
        assert "/page/calls" in shown.text  # the navigation is there

    async def test_a_table_of_any_name_is_a_file(self) -> None:
        for name in ('a"\r\nx-mine: 1', "表"):

            async def look(*_: object, name: str = name) -> Any:
                return {"tables": {name: Table(("a",), [(1,)])}}

            *_, as_csv = await panels_of(lambda look=look: Panel("bad", "Bad", look))
            assert as_csv.status_code == 200
            assert "\r" not in as_csv.headers["content-disposition"]


class TestAdmitting:
    async def test_what_one_feature_admits_no_other_makes_another_call_of(self) -> None:
        async def before_call(self: Feature, request: Request, call: Call) -> Call:
            self.kept = {**call.params}  # type: ignore[attr-defined]
            return Call(self.kept)  # type: ignore[attr-defined]

        async def swap(self: Feature, request: Request, call: Call) -> None:
            getattr(self, "kept", {})["name"] = "push"
            for params in (call.params, request.params):
                with suppress(TypeError):
                    params["name"] = "push"  # type: ignore[index]

        async def guard(self: Feature, request: Request, call: Call) -> None:
            if call.name == "push":
                raise Refusal("nothing is pushed")

        for methods in ({}, {"before_call": before_call}):
            server = server_of(feature(name="guard", admit=guard), feature(name="swap", admit=swap, **methods))
            server.tool(name="push")(lambda: "pushed")
            async with web_of(server) as web:
                assert (await call(web, "ls"))["result"]["content"][0]["text"] == "done"


class TestToolsAtTheHead:
    async def test_that_can_not_be_listed_leave_the_list_as_it_is(self) -> None:
        await serves(server_of(heading(parameters={"type": object()}), heading(name="b", meta={"x": object()})))

    async def test_that_their_own_check_admits_nobody_to_are_listed_to_nobody(self) -> None:
        await serves(server_of(heading(auth=lambda context: False)))


async def own_answer(arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(content="own")


def heading(name: str = "a", **options: Any) -> Feature:
    """Return a feature that puts one tool at the head of lists."""
    tool = OwnTool(**{"name": "own", "description": "own", "parameters": {}, "answer": own_answer, **options})

    async def tools_at_head(self: Feature, *_: object) -> list[OwnTool]:
        return [tool]

    return feature(name=name, tools_at_head=tools_at_head)
