"""Background tasks of upstreams are handed on to callers who take them, by ids of ours, and to nobody else."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from fastmcp import Client
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.transforms import Namespace
from mcp.shared.exceptions import MCPError

from agent_utilities import create_gateway, create_mcp_server
from agent_utilities.gateway.tasks import TaskIds
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.sealed_store import new_key
from tests.every import every
from tests.fleet.processes.replicas import until
from tests.gateway.gateways import Served, served
from tests.gateway.upstreams.supervised import faulty, gateway_of, script
from tests.gateway.upstreams.tasks_server import Server, serve_http
from tests.parts import upstreams_of
from tests.server.in_process import web_of
from tests.server.task_clients import TASKS, TaskClient, asking

pytestmark = [pytest.mark.outside, pytest.mark.timeout(90)]

METHODS = ["tasks/get", "tasks/update", "tasks/cancel"]
ANSWERS = {"who": {"action": "accept", "content": {"name": "Ann"}}}
KEY = new_key()
TOKENS = StaticTokenVerifier(
    {
        "ann": {"client_id": "desk", "sub": "ann"},
        "ann-again": {"client_id": "desk", "sub": "ann"},
        "bob": {"client_id": "desk", "sub": "bob"},
    }
)


def up(name: str = "up", **settings: Any) -> UpstreamConfig:
    return script(name, "tasks_server.py", "stdio", **settings)


def at(url: str) -> UpstreamConfig:
    return UpstreamConfig.model_validate({"name": "up", "source": "test", "transport": "http", "url": url})


@contextmanager
def on_http() -> Iterator[tuple[Server, str]]:
    server = Server()
    listening = serve_http(server, 0)
    try:
        yield server, f"http://127.0.0.1:{listening.server_address[1]}/mcp"
    finally:
        listening.shutdown()
        listening.server_close()


def params(method: str, task: str) -> dict[str, Any]:
    return {"taskId": task, **({"inputResponses": {}} if method == "tasks/update" else {})}


def unknown(client: TaskClient, method: str, like: str) -> str:
    """Return what is answered for a task that never was, with another's id in its place."""
    never = "x" * len(like)
    return json.dumps(client.ask(method, params(method, never))).replace(never, like)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served(up(), up("other"), script("older", "asking_server.py")) as made:
        yield made


@pytest.fixture(scope="module")
def of_people() -> Iterator[Served]:
    with served(up(), up("own", isolate=True), auth=TOKENS) as made:
        yield made


class TestWhoTakesTasks:
    def test_is_told_of_them(self, gateway: Served) -> None:
        assert TASKS.items() <= TaskClient(gateway.url).ask("server/discover")["capabilities"]["extensions"].items()

    def test_is_given_the_upstreams_task_as_it_is_but_for_its_id(self, gateway: Served) -> None:
        made = TaskClient(gateway.url).call(
            "up_work", id="theirs", ttlMs=None, more={"own": [1], "statusMessage": "on"}
        )
        del made["_meta"]
        assert made.pop("taskId") != "theirs"
        assert made == {
            "resultType": "task",
            "status": "working",
            "createdAt": "2026-07-28T00:00:00Z",
            "lastUpdatedAt": "2026-07-28T00:00:00Z",
            "ttlMs": None,
            "pollIntervalMs": 10,
            "own": [1],
            "statusMessage": "on",
        }

    def test_polls_it_to_its_end(self, gateway: Served) -> None:
        client = TaskClient(gateway.url)
        task = client.task(id="slow", waits=True, result={"content": [], "own": 1, "structuredContent": [2]})
        assert client.get(task)["status"] == "working"
        client.call("up_end", id="slow")
        ended = client.get(task)
        assert (ended["taskId"], ended["resultType"]) == (task, "complete")
        assert ended["result"] == {"content": [], "own": 1, "structuredContent": [2]}

    def test_answers_what_it_asks(self, gateway: Served) -> None:
        client = TaskClient(gateway.url)
        task = client.task(asks=True)
        assert client.get(task)["inputRequests"]["who"]["method"] == "elicitation/create"
        assert client.ask("tasks/update", {"taskId": task, "inputResponses": ANSWERS}) == {"resultType": "complete"}
        assert json.loads(client.get(task)["result"]["content"][0]["text"]) == ANSWERS

    def test_cancels_it(self, gateway: Served) -> None:
        client = TaskClient(gateway.url)
        task = client.task(waits=True)
        assert client.ask("tasks/cancel", {"taskId": task}) == {"resultType": "complete"}
        assert client.get(task)["status"] == "cancelled"

    def test_is_told_the_error_that_it_ended_by(self, gateway: Served) -> None:
        client = TaskClient(gateway.url)
        ended = client.get(client.task(fails=True))
        assert ended["error"] == {"code": -32099, "message": "it broke", "data": {"own": 1}}

    def test_reads_by_the_urls_of_its_result_what_other_results_have(self, gateway: Served) -> None:
        client = TaskClient(gateway.url)
        link = {"content": [{"type": "resource_link", "name": "n", "uri": "note://same"}]}
        first = client.get(client.task(result=link))["result"]["content"][0]["uri"]
        second = client.get(client.task("other_work", result=link))["result"]["content"][0]["uri"]
        assert [first, second] == ["note://same", "note://other/same"]

    def test_reads_so_by_a_result_that_comes_with_the_task(self, gateway: Served) -> None:
        link = {"content": [{"type": "resource_link", "name": "n", "uri": "note://at-once"}]}
        for name in ("up", "other"):
            made = TaskClient(gateway.url).call(f"{name}_work", more={"status": "completed", "result": link})
        assert made["result"]["content"][0]["uri"] == "note://other/at-once"

    def test_is_asked_before_the_task_is_made_too(self, gateway: Served) -> None:
        client, first = TaskClient(gateway.url), {"name": "up_work", "arguments": {"first": True}}
        asked = client.ask("tools/call", first)
        assert asked["resultType"] == "input_required"
        made = client.ask("tools/call", {**first, "inputResponses": ANSWERS, "requestState": asked["requestState"]})
        assert client.get(made["taskId"])["status"] == "completed"

    def test_calls_by_tool_search_too(self, gateway: Served) -> None:
        client = TaskClient(gateway.url, query="?tool_search=on")
        given = {"name": "call_tool", "arguments": {"name": "up_work", "arguments": {}}}
        assert client.get(client.ask("tools/call", given)["taskId"])["status"] == "completed"

    def test_has_two_tasks_of_one_id_at_two_upstreams(self, gateway: Served) -> None:
        client = TaskClient(gateway.url)
        tasks = [client.task(f"{name}_work", id="same", more={"of": name}) for name in ("up", "other")]
        assert [client.get(task)["of"] for task in tasks] == ["up", "other"]

    def test_has_a_call_of_an_upstream_of_before_run_as_a_call(self, gateway: Served) -> None:
        assert "content" in TaskClient(gateway.url).call("older_add", a=1, b=2)


class TestWhatTheUpstreamIsTold:
    def test_is_the_extension_with_this_call_alone(self, gateway: Served) -> None:
        assert TaskClient(gateway.url).text("up_plain") == TASKS
        assert TaskClient(gateway.url, takes=False).text("up_plain") == {}

    def test_is_what_else_the_caller_offers_and_its_own_id_in_body_and_header(self) -> None:
        with on_http() as (server, url), served(at(url)) as gateway:
            client = TaskClient(gateway.url)
            client.ask("tasks/cancel", {"taskId": client.task(id="näme with ä"), "own": 1})
        cancelled = server.requests[-1]
        assert (cancelled["params"]["taskId"], cancelled["params"]["own"]) == ("näme with ä", 1)
        assert cancelled["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {
            "elicitation": {},
            "extensions": TASKS,
        }
        assert cancelled["headers"]["mcp-method"] == "tasks/cancel"
        assert cancelled["headers"]["mcp-name"].startswith("=?base64?")


class TestWhoTakesNone:
    def test_has_what_can_be_a_task_run_as_a_call(self, gateway: Served) -> None:
        (content,) = TaskClient(gateway.url, takes=False).call("up_work")["content"]
        assert content["text"] == "ran as a call"

    def test_is_told_by_the_upstream_what_would_do_for_what_must_be_one(self, gateway: Served) -> None:
        refused = TaskClient(gateway.url, takes=False).call("up_must")
        assert refused["code"] == -32021
        assert refused["data"] == {"requiredCapabilities": {"extensions": TASKS}}

    @pytest.mark.anyio
    async def test_nor_can_in_the_protocol_of_before(self, gateway: Served) -> None:
        async with Client(f"{gateway.url}/mcp", mode="legacy") as client:
            told = client.server_capabilities
            assert told is not None
            assert not (told.extensions or {}).keys() & TASKS.keys()
            result = await client.call_tool("up_work", {})
            assert result.content[0].text == "ran as a call"  # type: ignore[union-attr]
            with pytest.raises(MCPError, match="must be a task"):
                await client.call_tool_mcp("up_must", {})

    @every("method", METHODS)
    def test_may_ask_for_none(self, gateway: Served, method: str) -> None:
        task = TaskClient(gateway.url).task()
        for each in (task, "never"):
            refused = TaskClient(gateway.url, takes=False).ask(method, params(method, each))
            assert refused["code"] == -32021
            assert refused["data"] == {"requiredCapabilities": {"extensions": TASKS}}

    def test_may_hear_of_none(self, gateway: Served) -> None:
        wished = {"notifications": {"taskIds": [TaskClient(gateway.url).task()]}}
        assert TaskClient(gateway.url, takes=False).ask("subscriptions/listen", wished)["code"] == -32021

    def test_is_given_no_task_that_is_made_all_the_same(self, gateway: Served) -> None:
        result = TaskClient(gateway.url, takes=False).call("up_work", anyway=True)
        assert result["isError"]
        assert result["content"][0]["text"].endswith("it answered with a task, and none was to be made")


class TestAnIdOfOurs:
    @every("method", METHODS)
    def test_is_unknown_to_another_caller(self, of_people: Served, method: str) -> None:
        task = TaskClient(of_people.url, "ann").task(waits=True)
        bob = TaskClient(of_people.url, "bob")
        assert json.dumps(bob.ask(method, params(method, task))) == unknown(bob, method, task)
        assert TaskClient(of_people.url, "ann").get(task)["status"] == "working"

    def test_is_known_to_its_caller_by_a_token_that_was_renewed(self, of_people: Served) -> None:
        task = TaskClient(of_people.url, "ann").task()
        assert TaskClient(of_people.url, "ann-again").get(task)["status"] == "completed"

    @every("method", METHODS)
    @every("query", ["?disabled_tools=up_work", "?tools=up_plain", "?toolsets=other"])
    def test_is_unknown_under_bounds_without_its_tool(self, gateway: Served, query: str, method: str) -> None:
        task = TaskClient(gateway.url).task(waits=True)
        narrowed = TaskClient(gateway.url, query=query)
        assert json.dumps(narrowed.ask(method, params(method, task))) == unknown(narrowed, method, task)
        assert TaskClient(gateway.url).get(task)["status"] == "working"

    @every("method", METHODS)
    def test_is_no_method_to_who_may_use_no_tool_of_an_upstream_with_tasks(self, gateway: Served, method: str) -> None:
        task = TaskClient(gateway.url).task()
        bounded = TaskClient(gateway.url, query="?toolsets=older")
        assert not bounded.ask("server/discover")["capabilities"]["extensions"].keys() & TASKS.keys()
        assert bounded.ask(method, params(method, task)) == bounded.ask(method, params(method, "never"))
        assert bounded.ask(method, params(method, task))["code"] == -32601

    def test_is_unknown_once_its_upstream_was_started_again(self) -> None:
        with served(up()) as gateway:
            client = TaskClient(gateway.url)
            task = client.task(id="gone")
            psutil.Process(client.text("up_told")["pid"]).kill()
            asyncio.run(until(lambda: client.get(task)["code"] != -32603))  # it died, and is not started at once
            assert client.get(task) == {"code": -32602, "message": f"task {task} has expired"}

    def test_says_nothing_of_what_it_leads_to_and_is_another_each_time(self, gateway: Served) -> None:
        client = TaskClient(gateway.url)
        first, second = client.task(id="same"), client.task(id="same")
        assert first != second
        assert client.get(first)["status"] == client.get(second)["status"] == "completed"

    @every("given", ["", "v1.", "task-1", "é" * 9, "x" * 40_000, ["task-1"], {"taskId": 1}, 7, None])
    def test_can_not_be_made_up(self, gateway: Served, given: Any) -> None:
        client = TaskClient(gateway.url)
        client.task(id="task-1")
        refused = client.ask("tasks/get", {"taskId": given}, name="x" if isinstance(given, str) else "none")
        assert refused["code"] in (-32602, -32020)

    def test_is_named_by_the_header_as_by_the_body(self, gateway: Served) -> None:
        client = TaskClient(gateway.url)
        assert client.ask("tasks/get", {"taskId": client.task()}, name="another")["code"] == -32020


class TestAnIdOfTheUpstreams:
    @every("given", [None, 7, "", "x" * 1_025, ["a"]])
    def test_that_is_none_costs_its_call_alone(self, gateway: Served, given: Any) -> None:
        client = TaskClient(gateway.url)
        result = client.call("up_work", more={"taskId": given})
        assert result["isError"]
        assert "it answered with a task whose id is" in result["content"][0]["text"]
        assert client.get(client.task())["status"] == "completed"

    @every("ttl", [None, -1, 0, 1e400, 10**400, "long", [1], True])
    def test_may_last_as_long_as_it_says(self, gateway: Served, ttl: Any) -> None:
        client = TaskClient(gateway.url)
        assert client.get(client.task(ttlMs=ttl))["status"] == "completed"


class TestAnotherProcess:
    @every("keys", [(KEY, KEY), ("", ""), (KEY, new_key())])
    def test_knows_an_id_by_the_operators_key(self, keys: Sequence[str]) -> None:
        with on_http() as (_, url), served(at(url), environ={"MCP_SECRET_KEY": keys[0]}) as first:
            task = TaskClient(first.url).task(waits=True)
            with served(at(url), environ={"MCP_SECRET_KEY": keys[1]}) as second:
                told = TaskClient(second.url).get(task)
        assert told.get("status") == ("working" if keys == (KEY, KEY) else None)

    def test_has_ids_of_its_own_where_the_operators_key_is_none(self, caplog: pytest.LogCaptureFixture) -> None:
        with on_http() as (_, url), served(at(url), environ={"MCP_SECRET_KEY": "c2hvcnQ="}) as gateway:
            client = TaskClient(gateway.url)
            assert client.get(client.task())["status"] == "completed"
        assert "the secret key is no 32 bytes" in caplog.text
        assert "ids of tasks are known to this process alone" in caplog.text

    def test_of_another_server_knows_none(self) -> None:
        environ = {"MCP_GRAPH": "off", "MCP_SECRET_KEY": KEY}
        one, other = (TaskIds(create_mcp_server(name, environ=environ))._codec for name in ("one", "other"))
        with pytest.raises(Exception, match="unknown key"):
            other.unseal(one.seal(b""))


class TestAProcessOfEachCallers:
    def test_is_asked_for_their_tasks(self, of_people: Served) -> None:
        ann, bob = (TaskClient(of_people.url, name) for name in ("ann", "bob"))
        tasks = [each.task("own_work", id="mine", more={"of": i}) for i, each in enumerate((ann, bob))]
        assert [each.get(task)["of"] for each, task in zip((ann, bob), tasks, strict=True)] == [0, 1]

    def test_makes_none_where_nobody_is_known_again(self) -> None:
        with served(up(isolate=True)) as gateway:
            assert TaskClient(gateway.url).call("up_work")["content"][0]["text"] == "ran as a call"

    def test_is_kept_while_it_works_on_one(self) -> None:
        with served(up(idle_s=0.3), up("other", idle_s=0.3)) as gateway:
            client = TaskClient(gateway.url)
            task = client.task(waits=True)
            client.text("other_plain")
            asyncio.run(until(lambda: not gateway.upstreams["other"].pids))  # though it was used later
            assert client.get(task)["status"] == "working"

    def test_is_not_kept_longer_than_the_task(self) -> None:
        with served(up(idle_s=0.3)) as gateway:
            TaskClient(gateway.url).task(waits=True, ttlMs=1)
            asyncio.run(until(lambda: not gateway.upstreams["up"].pids))


class TestACallOnTheWay:
    def test_is_awaited_by_the_tool_that_makes_it(self) -> None:
        with served(up()) as gateway:

            async def own() -> str:
                """Call a tool of the upstream's."""
                result = await gateway.gateway.call_tool("up_work", {})
                return result.content[0].text  # type: ignore[no-any-return, union-attr]

            gateway.gateway.tool(own)
            assert TaskClient(gateway.url).call("own")["content"][0]["text"] == "ran as a call"
            gateway.gateway.add_transform(Namespace("far"))
            assert TaskClient(gateway.url).call("far_up_work")["content"][0]["text"] == "ran as a call"


@pytest.mark.anyio
async def test_a_gateway_that_is_mounted_makes_none_since_nobody_could_ask_there(tmp_path: Path) -> None:
    environ = {**os.environ, "MCP_GRAPH": "off", "MCP_GATEWAY_FOLDER": str(tmp_path)}
    gateway, top = create_gateway(gateway_of(up()), environ=environ), create_mcp_server("top", environ=environ)
    top.mount(gateway)
    async with web_of(top) as web:
        await until(lambda: upstreams_of(gateway).upstreams["up"].snapshot is not None)
        called = await asking(web)("tools/call", {"name": "up_work", "arguments": {}})
    assert called["result"]["content"][0]["text"] == "ran as a call"


def test_an_upstream_without_the_extension_is_told_of_none_and_nothing_is_announced() -> None:
    with on_http() as (server, url):
        server.has_tasks = False
        with served(at(url), faulty()) as gateway:
            client = TaskClient(gateway.url)
            assert client.text("up_plain") == {}
            assert not client.ask("server/discover")["capabilities"]["extensions"].keys() & TASKS.keys()
            assert client.get("never")["code"] == -32601


def test_a_gateway_before_a_gateway_hands_them_on() -> None:
    with served(up()) as behind, served(at(f"{behind.url}/mcp")) as front:
        client = TaskClient(front.url)
        task = client.task("up_up_work", asks=True)
        client.ask("tasks/update", {"taskId": task, "inputResponses": ANSWERS})
        assert client.get(task)["status"] == "completed"


def test_a_failure_to_reach_the_upstream_is_told_as_one_and_costs_no_task() -> None:
    with on_http() as (server, url), served(at(url)) as gateway:
        client = TaskClient(gateway.url)
        task = client.task(waits=True)
        tasks, server.tasks = server.tasks, {}
        assert client.get(task)["code"] == -32602
        server.tasks = tasks
        assert client.get(task)["status"] == "working"
