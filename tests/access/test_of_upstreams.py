"""Quotas in the configuration of a gateway's upstreams."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities import create_gateway
from agent_utilities.access.quotas import Quotas
from agent_utilities.gateway.feature import Upstreams
from agent_utilities.gateway.upstreams.configuration.config_files import read_servers
from agent_utilities.seam.host import find
from tests.access.bounded import said
from tests.every import every
from tests.gateway.gateways import served
from tests.gateway.upstreams.supervised import FAULTY, script
from tests.parts import part
from tests.server.task_clients import TaskClient

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(60)]
PLAIN = {"command": sys.executable, "args": ["-I", "-S", str(FAULTY)]}


def config(**quotas: Any) -> dict[str, Any]:
    """Return the config of an upstream of each name, with its quota if it has one."""
    return {"mcpServers": {name: {**PLAIN, **({"quota": given} if given else {})} for name, given in quotas.items()}}


def environ(folder: Path, **more: str) -> dict[str, str]:
    return {"MCP_GRAPH": "off", "MCP_GATEWAY_FOLDER": str(folder / "kept"), "MCP_TOOL_SEARCH": "off", **more}


async def echoed(client: Client[Any], *upstreams: str) -> list[str]:
    """Return what calls of upstreams' tools are answered."""
    return [(await said(client, f"{name}_echo", text="x" * 2000))[:3] for name in upstreams]


async def test_bound_all_tools_of_one_together(tmp_path: Path) -> None:
    gateway = create_gateway(config(one={"callsPerMinute": 2}, other=None), environ=environ(tmp_path))
    async with Client(gateway) as client:
        assert await echoed(client, "one") == ["xxx"]
        assert await said(client, "one_add", a=1, b=2) == '{"sum": 3}'
        assert await echoed(client, "one", "other", "other", "other") == ["! r", "xxx", "xxx", "xxx"]


async def test_bound_bytes_too(tmp_path: Path) -> None:
    gateway = create_gateway(config(one={"bytes_per_minute": 1000}), environ=environ(tmp_path))
    async with Client(gateway) as client:
        assert await echoed(client, "one", "one") == ["xxx", "! r"]


async def test_hold_beside_those_of_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[quota.servers."o*"]\ncalls_per_minute = 1')
    given = config(one={"calls_per_minute": 5}, other=None)
    async with Client(create_gateway(given, environ=environ(tmp_path, MCP_CONFIG_FILE=str(settings)))) as client:
        assert await echoed(client, "one", "one", "other", "other") == ["xxx", "! r", "xxx", "! r"]


async def test_are_followed_when_the_config_changes(tmp_path: Path) -> None:
    gateway = create_gateway(config(one={"calls_per_minute": 1}), environ=environ(tmp_path))
    async with Client(gateway) as client:
        assert await echoed(client, "one", "one") == ["xxx", "! r"]
        await part(gateway, Upstreams).reload(read_servers(config(one={"calls_per_minute": 2}), environ(tmp_path)))
        assert await echoed(client, "one", "one") == ["xxx", "! r"]


async def test_that_come_where_there_were_none_are_told_not_to_hold(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = create_gateway(config(one=None), environ=environ(tmp_path))
    async with Client(gateway):
        assert find(gateway, Quotas) is None
        await part(gateway, Upstreams).reload(read_servers(config(one={"calls_per_minute": 2}), environ(tmp_path)))
    assert "the quotas of one are held once the gateway starts anew" in caplog.text


@every(
    ("quota", "told"),
    [
        ({"calls_per_minit": 1}, "has 1 under 'calls_per_minit'"),
        ({"calls_per_minute": 0}, "has 0 under 'calls_per_minute'"),
        ({"calls_at_once": "3"}, "has '3' under 'calls_at_once'"),
        (7, "is 7"),
    ],
)
def test_that_cant_be_read_are_told_with_what_would_do(quota: object, told: str) -> None:
    read = read_servers(json.loads(json.dumps(config(one=quota))), {})
    assert len(read.problems) == 1
    assert told in read.problems[0]
    assert '"calls_per_minute", "bytes_per_minute" and "calls_at_once"' in read.problems[0]


class TestOfATask:
    """A call that its upstream makes a task of is one call, whatever it is asked afterwards."""

    def test_count_no_poll(self) -> None:
        with served(script("up", "tasks_server.py", "stdio", quota={"calls_per_minute": 1})) as gateway:
            client = TaskClient(gateway.url)
            task = client.task()
            assert {client.get(task)["status"] for _ in range(5)} == {"completed"}
            assert "refused by a quota" in client.call("up_work")["content"][0]["text"]
            assert client.get(task)["status"] == "completed"

    def test_count_the_bytes_of_its_result(self) -> None:
        long = {"content": [{"type": "text", "text": "x" * 2_000}]}
        with served(script("up", "tasks_server.py", "stdio", quota={"bytes_per_minute": 2_000})) as gateway:
            client = TaskClient(gateway.url)
            task = client.task(result=long)
            assert client.call("up_plain")["content"][0]["text"]
            client.get(task)
            assert "refused by a quota" in client.call("up_plain")["content"][0]["text"]
