"""Programs over every wire, by processes that an operator launches, behind a gateway, and while policy changes."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import httpx2
import pytest
from fastmcp import Client
from pydantic import Field

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access.token_file import revoke_token
from tests.access.team import Team
from tests.every import every
from tests.fleet.processes.replicas import until
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import script
from tests.programs.servers import MODES, Ran, ran
from tests.server.in_process import web_of
from tests.wire.processes import HttpProcess
from tests.wire.wires import Access, Answer, Caller, StdioCaller, WireName, modern_request

pytest.importorskip("pydantic_monty")
pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(120)]

SERVER = """
from agent_utilities import create_mcp_server
server = create_mcp_server("shop")
items = {n: {"id": n, "price": n * 3, "kind": "odd" if n % 2 else "even"} for n in range(40)}
@server.tool(annotations={"readOnlyHint": True})
def list_ids(page: int = 0) -> list[int]:
    return list(items)[page * 10 : page * 10 + 10]
@server.tool(annotations={"readOnlyHint": True})
def get_item(id: int) -> dict:
    return items[id]
@server.tool
def buy(id: int) -> str:
    return f"bought {id}"
if __name__ == "__main__":
    server.cli()
"""
JOIN = """
import asyncio
ids, page = [], 0
while found := await list_ids(page=page):
    ids += found
    page += 1
items = await asyncio.gather(*[get_item(id=i) for i in ids])
print(len(items))
sum(each["price"] for each in items if each["kind"] == "odd")
"""
JOINED = ["40\n", str(sum(n * 3 for n in range(40) if n % 2))]


def environ(**given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    return {**kept, "MCP_GRAPH": "off", "MCP_CONFIG_FILE": "none", "MCP_PROGRAMS": "all", **given}


def texts(answer: Answer) -> list[str]:
    return [block["text"] for block in answer.result["content"]]


def asked(caller: Caller, code: str) -> Answer:
    return caller.ask("tools/call", {"name": "run_program", "arguments": {"code": code}})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shop") / "shop.py"
    path.write_text(SERVER, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def access(shop: Path) -> Iterator[Access]:
    command = [sys.executable, str(shop), "-t", "http", "-p", "0", "--log-level", "info"]
    process = HttpProcess(command, environ())
    try:
        process.wait()
        with closing(Access(process.url)) as access:
            yield access
    finally:
        process.stop()
    assert process.process.returncode in (0, -15)


class TestOverStdio:
    def test_a_process_answers_a_program_and_ends_as_any_other(self, shop: Path):
        """The interpreter's threads made one process in ten end by an abort."""
        for _ in range(5):
            process = subprocess.Popen(
                [sys.executable, str(shop)],
                env=environ(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            assert process.stdin is not None
            assert process.stdout is not None
            caller = StdioCaller(process.stdout, process.stdin)
            answer = asked(caller, JOIN)
            assert not answer.refused
            assert texts(answer) == JOINED
            process.stdin.close()
            assert process.wait(20) == 0
            process.stdout.close()
            assert process.stderr is not None
            assert b"Traceback" not in process.stderr.read()
            process.stderr.close()

    def test_one_that_writes_is_refused_where_nobody_can_be_asked(self, shop: Path):
        process = subprocess.Popen(
            [sys.executable, str(shop)], env=environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=-3
        )
        assert process.stdin is not None
        assert process.stdout is not None
        answer = asked(StdioCaller(process.stdout, process.stdin), "await buy(id=1)")
        process.stdin.close()
        process.wait(20)
        process.stdout.close()
        assert answer.refused
        assert "buy was not called: it wants a person's yes" in texts(answer)[0]


class TestOverHttp:
    @every("wire", ["legacy", "modern"])
    def test_a_program_is_answered(self, access: Access, wire: WireName):
        with access.calling(wire) as caller:
            answer = asked(caller, JOIN)
        assert texts(answer) == JOINED

    @every("wire", ["legacy", "modern"])
    @every(
        ("query", "headers"),
        [
            ("?disabled_tools=get_item", []),
            ("?tools=list_ids,run_program", []),
            ("", [("x-mcp-disabled-tools", "get_item")]),
            ("", [("x-mcp-enabled-tools", "list_ids,run_program")]),
        ],
    )
    def test_its_callers_url_and_headers_narrow_it(
        self, access: Access, wire: WireName, query: str, headers: list[tuple[str, str]]
    ):
        with access.calling(wire, query, headers) as caller:
            answers = [asked(caller, JOIN.replace("get_item", name)) for name in ("get_item", "got_item")]
            read = asked(caller, "len(await list_ids())")
        assert answers[0].refused
        assert answers[0].raw.replace(b"get_item", b"got_item") == answers[1].raw
        assert texts(read) == ["10"]

    @every("wire", ["legacy", "modern"])
    def test_read_only_takes_what_writes_out_of_programs(self, access: Access, wire: WireName):
        with access.calling(wire, "?read_only=true") as caller:
            answers = [asked(caller, f"await {name}(id=1)") for name in ("buy", "bye")]
            read = asked(caller, JOIN)
        assert answers[0].raw.replace(b"buy", b"bye") == answers[1].raw
        assert texts(read) == JOINED

    @every("wire", ["legacy", "modern"])
    def test_many_at_once_get_their_own(self, access: Access, wire: WireName):
        async def one(n: int) -> list[str]:
            mode = "legacy" if wire == "legacy" else "2026-07-28"
            async with Client(f"{access.url}/mcp", mode=mode) as client:
                return (
                    await ran(client, f"import asyncio\nawait asyncio.sleep(0.05)\n[{n}, await get_item(id={n})]")
                ).texts

        async def all_of_them() -> list[list[str]]:
            return await asyncio.gather(*[one(n) for n in range(20)])

        found = [json.loads(each[0]) for each in asyncio.run(all_of_them())]
        assert [(each[0], each[1]["id"]) for each in found] == [(n, n) for n in range(20)]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served(script("plain", "plain_server.py"), environ={"MCP_PROGRAMS": "all", "MCP_APPROVE": ""}) as made:
        yield made


class TestBehindAGateway:
    @every("mode", MODES)
    async def test_tools_of_upstreams_are_called_under_their_names_there(self, gateway: Served, mode: str):
        code = "import asyncio\nawait asyncio.gather(*[plain_add(a=i, b=1) for i in range(20)])"
        async with Client(f"{gateway.url}/mcp", mode=mode, elicitation_handler=_yes) as client:
            found = await ran(client, code)
        assert json.loads(found.text) == [i + 1 for i in range(20)]

    @every("mode", MODES)
    async def test_an_upstreams_refusal_is_an_error_in_the_program(self, gateway: Served, mode: str):
        call = "await plain_add(a='x', b=1)  # type: ignore"
        code = f"try:\n    {call}\nexcept RuntimeError as error:\n    x = str(error)\nx"
        async with Client(f"{gateway.url}/mcp", mode=mode, elicitation_handler=_yes) as client:
            found = await ran(client, code)
        assert not found.is_error
        assert found.text.startswith("plain_add: ")

    @every("mode", MODES)
    async def test_what_a_caller_may_not_use_of_an_upstream_is_unknown(self, gateway: Served, mode: str):
        async with Client(f"{gateway.url}/mcp?disabled_tools=plain_echo", mode=mode) as client:
            answers = [(await ran(client, f"await {name}(text='a')")).text for name in ("plain_echo", "plain_each")]
        assert answers[0].replace("plain_echo", "plain_each") == answers[1]


class TestAnUpstreamThatAsks:
    @every("upstream", ["old", "new"])
    async def test_asks_its_callers_client_or_says_that_no_program_can_take_it(self, upstream: str):
        how = () if upstream == "old" else ("modern",)
        config = script("asking", "asking_server.py", *how)
        code = "try:\n    x = await asking_elicit()\nexcept RuntimeError as error:\n    x = str(error)\nx"
        with served(config, environ={"MCP_PROGRAMS": "all"}) as made:
            for mode in MODES:
                async with Client(f"{made.url}/mcp", mode=mode, elicitation_handler=_yes) as client:
                    found = await ran(client, code)
                assert not found.is_error, found.text
                assert "yes" in found.text or "call it by itself" in found.text

    @every("mode", MODES)
    async def test_is_told_that_its_call_was_cancelled_where_the_client_goes(self, mode: str):
        with served(script("asking", "asking_server.py"), environ={"MCP_PROGRAMS": "all"}) as made:
            async with Client(f"{made.url}/mcp", mode=mode, elicitation_handler=_yes) as client:
                task = asyncio.ensure_future(ran(client, "await asking_wait()"))
                async with asyncio.timeout(20):
                    assert (await client.call_tool("asking_waiting", {})).content[0].text
                    task.cancel()
                    assert "cancelled" in (await client.call_tool("asking_cancelled", {})).content[0].text
                await asyncio.gather(task, return_exceptions=True)


async def _yes(message: str, kind: Any, params: Any, context: Any) -> Any:
    from fastmcp.client.elicitation import ElicitResult

    return ElicitResult(action="accept", content=dict.fromkeys(params.requested_schema["properties"], "yes"))


RULES = """
[auth]
tokens = "{tokens}"
[profiles.few]
disabled_tools = ["git_log"]
[[access]]
who = {{ subject = "ann" }}
profile = "%s"
"""


class Held:
    """A team's server with a tool that waits, in which policy can change meanwhile."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.team = Team(folder, RULES % "all" + more)
        self.ann = self.team.token("ann")
        self.server: AgentServer = self.team.server({"MCP_PROGRAMS": "read"})
        self.began, self.go_on = asyncio.Event(), asyncio.Event()
        self.server.tool(self.wait, annotations={"readOnlyHint": True})

    async def wait(self) -> str:
        self.began.set()
        await self.go_on.wait()
        return "waited"

    async def ran(self, web: httpx2.AsyncClient, code: str, **headers: str) -> httpx2.Response:
        body, routing = modern_request("tools/call", {"name": "run_program", "arguments": {"code": code}})
        return await web.post("/mcp", json=body, headers={**dict(routing), **self.ann, **headers})


class TestWhilePolicyChanges:
    async def test_a_rule_that_changes_holds_for_the_next_call(self, tmp_path: Path):
        held = Held(tmp_path)
        async with web_of(held.server) as web:
            first = await held.ran(web, "await git_log()")
            task = asyncio.ensure_future(held.ran(web, "await wait()\nawait git_log()"))
            async with asyncio.timeout(20):
                await held.began.wait()
                held.team.write(RULES % "few")

                async def is_read() -> bool:
                    return bool((await held.ran(web, "await git_log()")).json()["result"].get("isError"))

                await until(is_read)
            held.go_on.set()
            result = (await task).json()["result"]
        assert first.json()["result"]["content"][0]["text"] == "done"
        assert result["isError"]
        assert "Unknown tool" in result["content"][0]["text"]

    async def test_a_token_that_is_revoked_makes_no_further_call(self, tmp_path: Path):
        held = Held(tmp_path)
        async with web_of(held.server) as web:
            task = asyncio.ensure_future(held.ran(web, "await wait()\nawait git_log()"))
            async with asyncio.timeout(20):
                await held.began.wait()
                revoke_token(held.team.tokens, "ann")

                async def is_out() -> bool:
                    return (await held.ran(web, "1")).status_code == 401

                await until(is_out)
            held.go_on.set()
            answer = await task
        assert '"done"' not in answer.text

    async def test_a_quota_counts_each_call_of_a_program(self, tmp_path: Path):
        held = Held(tmp_path, "[quota]\ncalls_per_minute = 2\n")
        code = "for i in range(9):\n    print(await git_log())"
        async with web_of(held.server) as web:
            result = (await held.ran(web, code)).json()["result"]
        text = result["content"][0]["text"]
        assert result["isError"]
        assert "refused by a quota: you may have 2 calls a minute" in text
        assert text.endswith("printed before that:\ndone\ndone\n")


Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


async def test_headers_that_repeat_arguments_of_the_outer_call_say_nothing_of_those_within():
    mcp = create_mcp_server("routed", environ={"MCP_PROGRAMS": "read", "MCP_GRAPH": "off"})

    @mcp.tool(annotations={"readOnlyHint": True})
    def routed(region: Region) -> str:
        return region

    async with web_of(mcp) as web:
        code = "[await routed(region='us'), await routed(region='eu')]"
        body, routing = modern_request("tools/call", {"name": "run_program", "arguments": {"code": code}})
        for header in ({}, {"mcp-param-region": "eu"}, {"mcp-param-region": "xx"}, {"mcp-param-code": "1"}):
            result = (await web.post("/mcp", json=body, headers={**dict(routing), **header})).json()["result"]
            assert result["content"][0]["text"] == '["us","eu"]'


async def test_progress_of_a_call_within_is_not_told_under_the_outer_ones_token():
    with served(script("plain", "plain_server.py"), environ={"MCP_PROGRAMS": "all"}) as made:
        told: list[Any] = []

        async def moved(*given: Any) -> None:
            told.append(given)

        async with Client(f"{made.url}/mcp", progress_handler=moved, elicitation_handler=_yes) as client:
            found = Ran(await client.call_tool("run_program", {"code": "await plain_count(to=5)"}))
    assert found.texts == ["5"]
    assert told == []
