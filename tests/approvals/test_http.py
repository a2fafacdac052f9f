"""Over HTTP: with a stream and without, at two replicas, and as the command asks."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from starlette.applications import Starlette
from starlette.routing import Mount

from agent_utilities import AgentServer, create_gateway
from agent_utilities.approvals.feature import Approvals
from agent_utilities.cli.app import main
from tests.access.team import Team
from tests.approvals.asked import ELICITS, MODES, Person, answered, called, files, waiting
from tests.command_line import Done, run_command
from tests.every import every
from tests.fleet.processes.replicas import Shared, shared_redis
from tests.page.test_door import TEAM
from tests.parts import part
from tests.server.in_process import web_of
from tests.server.servers import running
from tests.wire.wires import INITIALIZE, INITIALIZED, modern_request

pytestmark = pytest.mark.anyio
YES = {"agent-utilities-approval": {"action": "accept", "content": {"answer": "yes"}}}
HEADERS = {"accept": "application/json, text/event-stream"}


@asynccontextmanager
async def web_with(server: AgentServer, **options: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a server's HTTP application with options of its own."""
    app = server.http_app(host_origin_protection=False, **options)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=Starlette(routes=[Mount("", app=app)])), base_url="http://127.0.0.1"
        ) as web,
    ):
        yield web


class TestAStream:
    @pytest.mark.outside
    @every("mode", MODES)
    @every(("answer", "said"), [("yes", "removed /a"), ("no", "the answer was no")])
    def test_carries_question_and_answer_in_the_middle_of_a_call_or_by_its_result(self, answer, said, mode):
        import anyio

        server, made = files()

        async def ask(url: str) -> str:
            async with Client(f"{url}/mcp", mode=mode, elicitation_handler=Person(answer)) as client:
                return await called(client, "remove", path="/a")

        with running(server) as url:
            assert said in anyio.run(ask, url)
        assert len(made) == (answer == "yes")

    @every(
        "options", [{"json_response": True}, {"stateless_http": True}, {"json_response": True, "stateless_http": True}]
    )
    async def test_that_is_not_there_is_waited_for_by_no_call(self, options: dict[str, bool]):
        server, made = files()
        given = {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": {"elicitation": {}}}}
        async with web_with(server, **options) as web:
            begun = await web.post("/mcp", json=given, headers=HEADERS)
            session = (
                {"mcp-session-id": begun.headers.get("mcp-session-id", "")} if not options.get("stateless_http") else {}
            )
            await web.post("/mcp", json=INITIALIZED, headers={**HEADERS, **session})
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            call["params"] = {"name": "remove", "arguments": {"path": "/a"}}  # type: ignore[assignment]
            texts = []
            for _ in range(2):
                answer = await web.post("/mcp", json=call, headers={**HEADERS, **session}, timeout=5)
                texts.append(answer.text)
                if await waiting(server):
                    await answered(server)
        assert ("/page/approvals" in texts[0], "removed /a" in texts[1], made) == (True, True, ["remove /a"])


async def modern(
    web: httpx2.AsyncClient, name: str, token: dict[str, str], *, elicits: bool, **more: Any
) -> dict[str, Any]:
    """Return the result of a call of 2026-07-28."""
    body, headers = modern_request("tools/call", {"name": name, "arguments": {"path": "/a"}, **more})
    if elicits:
        body["params"]["_meta"].update(ELICITS)
    answer = (await web.post("/mcp", json=body, headers={**dict(headers), **token})).json()
    return dict(answer.get("result") or answer["error"])


class TestSomebody:
    @pytest.fixture
    def people(self, tmp_path: Path) -> tuple[AgentServer, list[str], dict[str, dict[str, str]]]:
        team = Team(tmp_path, TEAM)
        tokens = {name: team.token(name) for name in ("ann", "bob")}
        server, made = files(MCP_CONFIG_FILE=str(team.settings))
        return server, made, tokens

    async def test_who_answers_anothers_question_gets_nothing_by_it(self, people: Any):
        server, made, tokens = people
        async with web_of(server) as web:
            asked = await modern(web, "remove", tokens["ann"], elicits=True)
            stolen = {"requestState": asked["requestState"], "inputResponses": YES}
            assert "requestState" in (await modern(web, "remove", tokens["bob"], elicits=True, **stolen))["message"]
            assert made == []
            done = await modern(web, "remove", tokens["ann"], elicits=True, **stolen)
        assert (done["content"][0]["text"], made) == ("removed /a", ["remove /a"])

    async def test_a_yes_for_one_is_of_no_use_to_another(self, people: Any):
        server, made, tokens = people
        async with web_of(server) as web:
            await modern(web, "remove", tokens["ann"], elicits=False)
            await answered(server)
            other = await modern(web, "remove", tokens["bob"], elicits=False)
            assert ("not called yet" in other["content"][0]["text"], made) == (True, [])
            await modern(web, "remove", tokens["ann"], elicits=False)
        assert made == ["remove /a"]

    async def test_who_they_are_is_with_the_question(self, people: Any):
        server, _, tokens = people
        async with web_of(server) as web:
            await modern(web, "remove", tokens["ann"], elicits=False)
        [question] = await waiting(server)
        assert question.who.startswith("ann (")

    async def test_question_and_answer_are_in_the_record_with_who(self, people: Any, tmp_path: Path):
        file = tmp_path / "audit.jsonl"
        _, _, tokens = people
        server, _ = files(MCP_CONFIG_FILE=str(tmp_path / "agent-utilities.toml"), MCP_AUDIT_FILE=str(file))
        async with web_of(server) as web:
            await modern(web, "remove", tokens["ann"], elicits=False)
            await answered(server, "yes", ("here", "bob"))
            await modern(web, "remove", tokens["ann"], elicits=False)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        events = [each["event"] for each in lines if each.get("tool") == "remove"]
        assert events == ["question", "asked", "answer", "call", "result"]
        answer = next(each for each in lines if each["event"] == "answer")
        assert [answer[key] for key in ("subject", "by_subject", "answer", "how")] == ["ann", "bob", "yes", "page"]
        assert "/a" not in json.dumps(lines)


@pytest.mark.outside
class TestReplicas:
    @pytest.fixture
    def redis(self, tmp_path: Path) -> Iterator[Shared]:
        with shared_redis(tmp_path) as shared:
            yield shared

    async def test_what_is_asked_at_one_is_answered_at_another_and_made_once(self, redis: Shared, tmp_path: Path):
        team = Team(tmp_path, TEAM)
        token = team.token("ann")
        environ = {**redis.environ, "MCP_CONFIG_FILE": str(team.settings)}
        async with AsyncExitStack() as stack:
            servers = [files(**environ) for _ in range(2)]
            webs = [await stack.enter_async_context(web_of(server)) for server, _ in servers]
            await modern(webs[0], "remove", token, elicits=False)
            assert await answered(servers[1][0])
            texts = [(await modern(web, "remove", token, elicits=False))["content"][0]["text"] for web in webs[::-1]]
            assert (texts[0], "not called yet" in texts[1]) == ("removed /a", True)
        assert [len(made) for _, made in servers] == [0, 1]

    async def test_a_result_that_asks_is_answered_at_another_once(self, redis: Shared, tmp_path: Path):
        team = Team(tmp_path, TEAM)
        token = team.token("ann")
        environ = {**redis.environ, "MCP_CONFIG_FILE": str(team.settings)}
        async with AsyncExitStack() as stack:
            servers = [files(**environ) for _ in range(2)]
            here, there = [await stack.enter_async_context(web_of(server)) for server, _ in servers]
            asked = await modern(here, "remove", token, elicits=True)
            more = {"requestState": asked["requestState"], "inputResponses": YES}
            done = [await modern(web, "remove", token, elicits=True, **more) for web in (there, here, there)]
        assert [each["resultType"] for each in done] == ["complete", "input_required", "input_required"]
        assert [len(made) for _, made in servers] == [0, 1]

    async def test_a_question_outlives_the_server_that_asked(self, redis: Shared, tmp_path: Path):
        team = Team(tmp_path, TEAM)
        token = team.token("ann")
        environ = {**redis.environ, "MCP_CONFIG_FILE": str(team.settings)}
        before, _ = files(**environ)
        async with web_of(before) as web:
            await modern(web, "remove", token, elicits=False)
        after, made = files(**environ)
        async with web_of(after) as web:
            assert await answered(after)
            await modern(web, "remove", token, elicits=False)
        assert made == ["remove /a"]

    async def test_where_redis_has_gone_nothing_is_called(self, redis: Shared):
        server, made = files(**redis.environ)
        async with web_of(server) as web:
            redis.kill()
            result = await modern(web, "remove", {}, elicits=True)
        assert ("a yes can't be kept now" in result["content"][0]["text"], made) == (True, [])


class TestAlone:
    async def test_a_question_is_gone_with_the_server_that_asked_and_its_answer_is_told_so(self):
        before, _ = files()
        async with Client(before) as client:
            await called(client, "remove", path="/a")
        [question] = await waiting(before)
        after, made = files()
        async with Client(after) as client:
            assert await part(after, Approvals).answer(question.id, "yes", "page", ("", "")) is None
            assert "not called yet" in await called(client, "remove", path="/a")
        assert made == []


SERVER = """
from fastmcp import FastMCP
mcp = FastMCP("things")
@mcp.tool
def drop(name: str) -> str:
    return f"dropped {name}"
@mcp.tool(annotations={"readOnlyHint": True})
def peek() -> str:
    return "peeked"
mcp.run(show_banner=False)
"""


class TestAGateway:
    @pytest.mark.outside
    @every(("mode", "approve"), [("legacy", "d*"), ("2026-07-28", {"tools": "writes"})])
    async def test_asks_for_what_a_servers_entry_names_by_the_servers_own_names(self, approve, mode, tmp_path: Path):
        import sys

        (tmp_path / "things.py").write_text(SERVER)
        entry = {"command": sys.executable, "args": [str(tmp_path / "things.py")], "approve": approve}
        person = Person("no", "yes")
        folder = {"MCP_GATEWAY_FOLDER": str(tmp_path / "kept"), "MCP_GRAPH": "off"}
        gateway = create_gateway({"mcpServers": {"things": entry}}, environ=folder)
        async with Client(gateway, mode=mode, elicitation_handler=person) as client:
            texts = [await called(client, "things_drop", name=name) for name in ("a", "b")]
            assert await called(client, "things_peek") == "peeked"
        assert ("the answer was no" in texts[0], texts[1]) == (True, "dropped b")
        assert "things_drop of things" in person.read[0]

    def test_says_what_an_entry_may_have(self):
        from agent_utilities.gateway.upstreams.configuration.config_files import read_servers

        config = read_servers({"mcpServers": {"a": {"command": "x", "approve": {"who": "me"}}}}, {})
        assert ("approve" in config.problems[0], "how" in config.problems[0]) == (True, True)


@pytest.mark.outside
class TestTheCommand:
    @pytest.fixture
    def approve(self, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
        return lambda *arguments: run_command(main, ["agent-utilities", "approve", *arguments], os.environ, capfd)

    def test_lists_what_waits_and_answers_it_with_a_token(self, approve: Callable[..., Done], tmp_path: Path):
        import anyio

        team = Team(tmp_path, TEAM)
        tokens = {name: team.token(name)["authorization"] for name in ("ann", "bob", "eve")}
        server, made = files(MCP_CONFIG_FILE=str(team.settings))

        async def call(url: str) -> str:
            async with Client(f"{url}/mcp", auth=tokens["eve"].split()[1]) as client:
                return await called(client, "remove", path="/a\u202eb")

        def header(name: str) -> list[str]:
            return ["--header", f"authorization={tokens[name]}"]

        with running(server) as url:
            anyio.run(call, url)
            listed = approve(url, *header("ann"))
            assert all(text in listed.stdout for text in ("remove of files", "for eve", "path: /a\\u202eb"))
            [row] = json.loads(approve(url, "--json", *header("ann")).stdout)["waiting"]
            assert row["id"] in listed.stdout
            assert row["id"] not in approve(url, *header("bob")).stdout
            for name in ("bob", "eve"):
                refused = approve(url, row["id"], "yes", *header(name))
                assert (refused.returncode, made) == (1, [])
            assert approve(url).returncode == 1
            assert "yes: remove of files" in approve(url, row["id"], "yes", *header("ann")).stdout
            again = approve(url, row["id"], "yes", *header("ann"))
            assert (again.returncode, "waits no more" in again.stderr) == (1, True)
            assert anyio.run(call, url) == "removed /a\u202eb"

    def test_comes_in_by_the_pages_link_where_nobody_logs_in(self, approve: Callable[..., Done]):
        import anyio

        from tests.page.looking import key_of

        server, made = files()

        async def call(url: str) -> str:
            async with Client(f"{url}/mcp", mode="2026-07-28") as client:
                return await called(client, "remove", path="/a")

        with running(server) as url:
            anyio.run(call, url)
            assert approve(url).returncode == 1
            [row] = json.loads(approve(f"{url}/?key={key_of(server)}", "--json").stdout)["waiting"]
            assert approve(f"{url}/?key={key_of(server)}", row["id"], "yes").returncode == 0
            assert anyio.run(call, url) == "removed /a"
        assert made == ["remove /a"]
