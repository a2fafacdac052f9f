"""docker-compose.yml, as far as it can be read without an engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
