"""Quotas of persons, tools and servers, on a server's real application."""

from __future__ import annotations

import asyncio
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier

from agent_utilities import Feature, create_mcp_server
from agent_utilities.access import quotas as feature
from agent_utilities.access.quotas import Quotas
from agent_utilities.seam.caller import Caller
from agent_utilities.seam.events import PolicyChanged
from agent_utilities.seam.feature import NOT_TAKEN, Refusal
from agent_utilities.seam.host import find
from agent_utilities.seam.request import Call, Request, ToolCalled
from agent_utilities.selection.model import NOTHING
from tests.access.bounded import Bounded, Clock, metrics, said
from tests.background_tasks import ask as ask_task
from tests.background_tasks import tasks_extension
from tests.every import every
from tests.parts import part
from tests.server.in_process import web_of
from tests.usage.logs import until

pytestmark = pytest.mark.anyio
both_eras = every("mode", ["legacy", "auto"])

TABLES = {"person": "[quota]", "tool": '[quota.tools."git_*"]', "server": "[quota.servers.archive]"}
each_kind = every("kind", list(TABLES))
WHO = {
    "person": "you may have",
    "tool": "all callers of git_log together may have",
    "server": "all callers of the server of look together may have",
}


def quota(kind: str, line: str) -> str:
    return f"{TABLES[kind]}\n{line}\n"


def tool_of(kind: str) -> str:
    return "look" if kind == "server" else "git_log"


class TestCallsAMinute:
    @both_eras
    @each_kind
    async def test_beyond_the_quota_are_refused_until_the_window_ends(
        self, kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock, tool = Clock(monkeypatch), tool_of(kind)
        async with Bounded(tmp_path, quota(kind, "calls_per_minute = 2")).callers("ann", mode=mode) as (ann,):
            assert [await said(ann, tool) for _ in range(2)] == ["done", "done"]
            clock.forward(20)
            assert await said(ann, tool) == f"! refused by a quota: {WHO[kind]} 2 calls a minute; try again in 40 s"
            clock.forward(40)
            assert await said(ann, tool) == "done"

    @each_kind
    async def test_are_each_persons_own_but_everybodys_together_of_a_tool_or_server(
        self, kind: str, tmp_path: Path
    ) -> None:
        async with Bounded(tmp_path, quota(kind, "calls_per_minute = 1")).callers("ann", "bob") as (ann, bob):
            await said(ann, tool_of(kind))
            assert (await said(bob, tool_of(kind)) == "done") is (kind == "person")

    @every("kind", ["tool", "server"])
    async def test_of_one_tool_or_server_leave_others_alone(self, kind: str, tmp_path: Path) -> None:
        async with Bounded(tmp_path, quota(kind, "calls_per_minute = 1")).callers("ann") as (ann,):
            await said(ann, tool_of(kind))
            # A glob is of each tool that it fits, by itself.
            assert [await said(ann, tool) for tool in {"git_push", "git_log", "look"} - {tool_of(kind)}] == ["done"] * 2

    async def test_of_several_quotas_are_bounded_by_the_smallest(self, tmp_path: Path) -> None:
        quotas = quota("person", "calls_per_minute = 3") + quota("tool", "calls_per_minute = 2")
        quotas += '[quota.tools."*_log"]\ncalls_per_minute = 1\n'
        async with Bounded(tmp_path, quotas).callers("ann") as (ann,):
            told = [await said(ann, tool) for tool in ("git_log", "git_log", "git_push", "git_push", "git_push")]
        assert [answer.split(";")[0] for answer in told] == [
            "done",
            "! refused by a quota: all callers of git_log together may have 1 calls a minute",
            "done",
            "done",
            "! refused by a quota: you may have 3 calls a minute",
        ]

    async def test_that_are_refused_count_for_nobody(self, tmp_path: Path) -> None:
        quotas = quota("person", "calls_per_minute = 1") + quota("tool", "calls_per_minute = 2")
        async with Bounded(tmp_path, quotas).callers("ann", "bob") as (ann, bob):
            assert [(await said(ann))[:6] for _ in range(5)] == ["done", *["! refu"] * 4]
            assert await said(bob) == "done"


class TestCallsAtOnce:
    @both_eras
    @each_kind
    async def test_are_so_many_of_fifty_and_the_others_refused_not_queued(
        self, kind: str, mode: str, tmp_path: Path
    ) -> None:
        team, n_refused = Bounded(tmp_path, quota(kind, "calls_at_once = 3")), 0
        team.work.may_end.clear()

        async def call(client: Client[Any]) -> str:
            nonlocal n_refused
            answer = await said(client, tool_of(kind))
            n_refused += answer.startswith("!")
            if n_refused == 47:  # all others were answered while these are held
                team.work.may_end.set()
            return answer

        async with team.callers("ann", mode=mode) as (ann,):
            told = await asyncio.gather(*(call(ann) for _ in range(50)))
            assert (sorted(set(told)), team.work.n_most, team.work.n_done) == (
                [f"! refused by a quota: {WHO[kind]} 3 calls at once; try again in 1 s", "done"],
                3,
                3,
            )
            assert await said(ann, tool_of(kind)) == "done"

    async def test_are_given_back_by_a_call_that_failed(self, tmp_path: Path) -> None:
        async with Bounded(tmp_path, quota("person", "calls_at_once = 1")).callers("ann") as (ann,):
            assert await said(ann, fails=True) == "! out of paper"
            assert await said(ann) == "done"

    @both_eras
    async def test_are_given_back_by_a_call_that_was_cancelled(self, mode: str, tmp_path: Path) -> None:
        team = Bounded(tmp_path, quota("person", "calls_at_once = 1"))
        server, ended = team.server(), asyncio.Event()
        server.features.observe(lambda _: ended.set(), ToolCalled)
        team.work.may_end.clear()
        async with team.callers("ann", server=server, mode=mode) as (ann,):
            call = asyncio.ensure_future(said(ann))
            await team.work.began.wait()
            call.cancel()
            await ended.wait()
            assert team.work.n_done == 0
            team.work.may_end.set()
            assert await said(ann) == "done"

    async def test_are_given_back_by_a_call_that_a_later_feature_refused(self, tmp_path: Path) -> None:
        class Strict(Feature):
            name = "strict"

            async def admit(self, request: Request, call: Call) -> None:
                raise Refusal("not today")

        team = Bounded(tmp_path, quota("person", "calls_at_once = 1"))
        environ = {"MCP_CONFIG_FILE": str(team.settings), "MCP_GRAPH": "off"}
        server = create_mcp_server("team", environ=environ, features=[Strict()])
        server.tool(name="git_log")(team.work.do)
        async with team.callers("ann", server=server) as (ann,):
            assert [await said(ann) for _ in range(3)] == ["! not today"] * 3

    async def test_are_kept_of_nobody_who_has_none(self, tmp_path: Path) -> None:
        team = Bounded(tmp_path, quota("person", "calls_at_once = 1"))
        server = team.server()
        async with team.callers("ann", "bob", server=server) as (ann, bob):
            await said(ann)
            await said(bob, fails=True)
            assert part(server, Quotas)._under_way == {}


class TestBytesAMinute:
    @both_eras
    @each_kind
    async def test_beyond_the_quota_are_given_and_the_next_call_is_refused(
        self, kind: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock, tool = Clock(monkeypatch), tool_of(kind)
        async with Bounded(tmp_path, quota(kind, "bytes_per_minute = 2000")).callers("ann", mode=mode) as (ann,):
            assert await said(ann, tool, text="x" * 100) == "x" * 100
            assert await said(ann, tool, text="é" * 5000) == "é" * 5000
            told = f"! refused by a quota: {WHO[kind]} 2000 bytes of results a minute; try again in 60 s"
            assert await said(ann, tool) == told
            clock.forward(60)
            assert await said(ann, tool) == "done"

    @pytest.mark.tasks
    async def test_of_a_task_are_counted_when_its_result_is_fetched(self, tmp_path: Path) -> None:
        settings = tmp_path / "quotas.toml"
        settings.write_text("[quota]\nbytes_per_minute = 2000\n")
        mcp = create_mcp_server("tasks", environ={"MCP_GRAPH": "off", "MCP_CONFIG_FILE": str(settings)})
        mcp.add_extension(tasks_extension())

        @mcp.tool(task=True)
        async def brew() -> str:
            return "x" * 2000

        call = {"name": "brew", "arguments": {}, "task": {"ttl": 60_000}}
        async with web_of(mcp) as web:
            began = (await ask_task(web, "tools/call", call))[1]["result"]
            assert "x" * 2000 not in str(began)
            told: dict[str, Any] = {}
            while "x" * 2000 not in str(told):
                told = (await ask_task(web, "tasks/get", {"taskId": began["taskId"]}))[1]["result"]
            refused = (await ask_task(web, "tools/call", call))[1]["result"]
        assert refused["content"][0]["text"].startswith("refused by a quota: you may have 2000 bytes")


class TestProfiles:
    READERS = "[profiles.readers.quota]\ncalls_per_minute = 1\n"
    BEYOND = "! refused by a quota: you may have 1 calls a minute"

    async def answers(self, team: Bounded, n: int, url: str = "/mcp", **environ: str) -> list[str]:
        async with team.callers("ann", server=team.server(environ), url=url) as (ann,):
            return [(await said(ann)).split(";")[0] for _ in range(n)]

    async def test_that_a_rule_names_bound_whom_it_fits(self, tmp_path: Path) -> None:
        rules = '[[access]]\nwho = {{ subject = "ann" }}\nprofile = "readers"\n'
        rules += '[[access]]\nwho = {{ subject = "bob" }}\nprofile = "all"\n'
        async with Bounded(tmp_path, self.READERS + rules).callers("ann", "bob") as (ann, bob):
            assert [(await said(each)).split(";")[0] for each in (ann, ann, bob, bob)] == [
                "done",
                self.BEYOND,
                "done",
                "done",
            ]

    async def test_that_a_token_was_made_with_bound_it(self, tmp_path: Path) -> None:
        team = Bounded(tmp_path, self.READERS)
        bearing = team.token("ann", profile="readers")
        team.token = lambda *_: bearing  # type: ignore[method-assign]
        assert await self.answers(team, 2) == ["done", self.BEYOND]

    async def test_that_the_operator_launched_with_bound_everybody(self, tmp_path: Path) -> None:
        assert await self.answers(Bounded(tmp_path, self.READERS), 2, MCP_PROFILE="Readers") == ["done", self.BEYOND]

    async def test_that_a_caller_names_only_narrow(self, tmp_path: Path) -> None:
        wider = "[profiles.wide.quota]\ncalls_per_minute = 9\n"
        quotas = "[quota]\ncalls_per_minute = 2\n" + self.READERS + wider
        team = Bounded(tmp_path, quotas)
        assert await self.answers(team, 2, "/mcp?profile=readers") == ["done", self.BEYOND]
        (tmp_path / "wide").mkdir()
        answers = await self.answers(Bounded(tmp_path / "wide", quotas), 3, "/mcp?profile=wide")
        assert answers == ["done", "done", "! refused by a quota: you may have 2 calls a minute"]

    async def test_that_nobody_names_bound_nobody(self, tmp_path: Path) -> None:
        assert await self.answers(Bounded(tmp_path, self.READERS), 3) == ["done"] * 3

    async def test_are_read_again_where_rules_are(self, tmp_path: Path) -> None:
        rule = '[[access]]\nwho = {{ subject = "ann" }}\nprofile = "readers"\n'
        team = Bounded(tmp_path, self.READERS + rule)
        server, changed = team.server(), asyncio.Event()

        def note(event: Any) -> None:
            if event.what == "quotas":
                changed.set()

        server.features.observe(note, PolicyChanged)
        async with team.callers("ann", server=server) as (ann,):
            assert [(await said(ann))[:4] for _ in range(2)] == ["done", "! re"]
            team.settings.write_text(team.settings.read_text().replace("per_minute = 1", "per_minute = 2"))
            await changed.wait()
            assert await said(ann) == "done"

    async def test_that_can_not_be_read_again_are_told_and_hold_as_they_were(self, tmp_path: Path) -> None:
        rule = '[[access]]\nwho = {{ subject = "ann" }}\nprofile = "readers"\n'
        team = Bounded(tmp_path, self.READERS + rule)
        server, right = team.server(), team.settings.read_text()
        async with team.callers("ann", server=server) as (ann,):
            team.settings.write_text(right.replace("per_minute = 1", "per_minute = 0"))
            await until(lambda: server.features.health().get("quotas") == NOT_TAKEN)
            assert [(await said(ann))[:4] for _ in range(2)] == ["done", "! re"]
            team.settings.write_text(right + "\n")
            await until(lambda: "quotas" not in server.features.health())


class TestWhoAndWhat:
    async def test_nobody_is_one_person(self) -> None:
        server = create_mcp_server("team", environ={"MCP_GRAPH": "off"}, features=[])
        server.tool(name="git_log")(lambda: "done")
        server.surface.operator.launch(NOTHING, quota={"calls_per_minute": 2})
        async with Client(server) as one, Client(server) as other:
            assert [(await said(each)).split(";")[0] for each in (one, other, one)] == [
                "done",
                "done",
                "! refused by a quota: you may have 2 calls a minute",
            ]

    async def test_a_subject_of_another_issuer_is_another_person(self, tmp_path: Path) -> None:
        claims = ({"sub": "ann", "iss": f"https://{name}.example", "client_id": "c"} for name in ("one", "other"))
        verifier = StaticTokenVerifier({f"t{i}": dict(each) for i, each in enumerate(claims)})
        team = Bounded(tmp_path, "")
        team.settings.write_text("[quota]\ncalls_per_minute = 1\n")
        headers = iter([{"authorization": f"Bearer t{i}"} for i in (0, 1, 0)])
        team.token = lambda *_: next(headers)  # type: ignore[method-assign]
        async with team.callers("a", "b", "c", server=team.server(auth=verifier)) as clients:
            assert [(await said(each))[:4] for each in clients] == ["done", "done", "! re"]

    async def test_lists_are_neither_counted_nor_cut(self, tmp_path: Path) -> None:
        async with Bounded(tmp_path, quota("person", "calls_per_minute = 1")).callers("ann") as (ann,):
            before = [tool.name for tool in await ann.list_tools()]
            assert [(await said(ann))[:4] for _ in range(2)] == ["done", "! re"]
            assert [tool.name for tool in await ann.list_tools()] == before

    async def test_a_denied_name_is_not_counted_and_reads_like_one_that_never_was(self, tmp_path: Path) -> None:
        team = Bounded(tmp_path, quota("person", "calls_per_minute = 1"))
        async with team.callers("ann", server=team.server({"MCP_DISABLED_TOOLS": "git_push"})) as (ann,):
            names = ("git_push", "git_xxxx")
            before = [(await said(ann, name)).replace(name, "X") for name in names]
            assert await said(ann) == "done"
            after = [(await said(ann, name)).replace(name, "X") for name in names]
        assert len({*before, *after}) == 1

    @both_eras
    async def test_a_call_by_call_tool_counts_once_and_for_the_tool_that_it_names(
        self, mode: str, tmp_path: Path
    ) -> None:
        quotas = quota("person", "calls_per_minute = 2") + "[quota.tools.git_push]\ncalls_per_minute = 1\n"
        team = Bounded(tmp_path, quotas + "[quota.tools.call_tool]\ncalls_per_minute = 1\n")
        async with team.callers("ann", server=team.server({"MCP_TOOL_SEARCH": "on"}), mode=mode) as (ann,):
            told = [await said(ann, "call_tool", name=name, arguments={}) for name in ("git_push", "git_push")]
            assert told[0] == "done"
            assert told[1].startswith("! refused by a quota: all callers of git_push together")
            assert [(await said(ann))[:4] for _ in range(2)] == ["done", "! re"]

    async def test_a_servers_name_is_not_told(self, tmp_path: Path) -> None:
        async with Bounded(tmp_path, quota("server", "calls_per_minute = 1")).callers("ann", "bob") as (ann, bob):
            await said(ann, "look")
            refused = await said(bob, "look")
        assert refused.startswith("! refused")
        assert not any(told in refused for told in ("archive", "ann", "bob"))


class TestTold:
    async def test_in_metrics(self, tmp_path: Path) -> None:
        team = Bounded(tmp_path, quota("person", "calls_per_minute = 1"))
        team.settings.write_text("[quota]\ncalls_per_minute = 1\n")
        server = team.server()
        async with web_of(server) as web, Client(server) as client:
            for _ in range(3):
                await said(client)
            assert await metrics(web) == {"person": 2, "tool": 0, "server": 0}

    async def test_at_the_start(self, tmp_path: Path) -> None:
        server = Bounded(tmp_path, quota("person", "calls_per_minute = 1")).server()
        server.complete()
        told = "calls are bounded by quotas, which are counted in this process"
        assert told in server.features.start_lines()


async def test_a_flood_of_persons_takes_no_more_memory_than_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature, "_N_COUNTED", 50)
    team = Bounded(tmp_path, quota("person", "calls_per_minute = 1\ncalls_at_once = 1"))
    server = team.server()
    server.complete()
    quotas = part(server, Quotas)
    for number in range(200):
        request = await server.request(NOTHING, method="tools/call", caller=Caller("issuer", f"person {number}"))
        call = Call({"name": "git_log"})
        await server.features.admit(request, call)
        server.notify(
            ToolCalled(
                call.name,
                "",
                True,
                0.0,
                await server.surface.unanswered_decision(await server.catalog("tool"), request.verdict),
                request,
            )
        )
    assert (len(quotas._counts._kept), len(quotas._under_way)) == (50, 0)


async def test_nothing_of_a_request_is_kept_once_it_is_answered(tmp_path: Path) -> None:
    seen: list[weakref.ref[Mark]] = []

    class Mark:
        """Lives as long as the request that it is put into."""

    class Marks(Feature):
        name = "marks"

        async def admit(self, request: Request, call: Call) -> None:
            request.values["mark"] = mark = Mark()
            seen.append(weakref.ref(mark))

    bounds = "calls_per_minute = 5\nbytes_per_minute = 50000\ncalls_at_once = 5"
    team = Bounded(tmp_path, "".join(quota(kind, bounds) for kind in TABLES))
    async with team.callers("ann", server=team.server(features=[Marks(), Quotas()])) as (ann,):
        assert [await said(ann, tool) for tool in ("git_log", "look")] == ["done"] * 2
        gc.collect()
        assert [mark() for mark in seen] == [None, None]


async def test_without_quotas_nothing_of_it_is_there(tmp_path: Path) -> None:
    server = Bounded(tmp_path, "").server()
    server.complete()
    assert find(server, Quotas) is None
