"""A real Neo4j by the first way that works: given, in Docker, or from its Maven artifacts."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import neo4j

from agent_utilities.query.graph.backends import Neo4jGraph

GIVEN = {name: value for name, value in os.environ.items() if name.startswith("NEO4J_")}
"""The caller's own variables, before any test changes them."""

IMAGE = "neo4j:5.26-community"
_EMPTY = "MATCH (n) WHERE n:Server OR n:CallableResource DETACH DELETE n"
_START_S = 120


class NoNeo4jError(RuntimeError):
    """No Neo4j can be had here; the message says why."""


@dataclass
class Access:
    """A Neo4j that answers.

    Args:
        uri: its address.
        username, password: whom to log in as.
        database: its database, or None for the default.
    """

    uri: str
    username: str | None
    password: str | None
    database: str | None = None
    _driver: neo4j.Driver | None = None

    @property
    def environ(self) -> dict[str, str]:
        """The variables that make an agent use it."""
        given = {
            "NEO4J_URI": self.uri,
            "NEO4J_USERNAME": self.username,
            "NEO4J_PASSWORD": self.password,
            "NEO4J_DATABASE": self.database,
        }
        return {name: value for name, value in given.items() if value}

    def graph(self) -> Neo4jGraph:
        """Return a graph on it, not yet open."""
        return Neo4jGraph(self.uri, self.username, self.password, self.database)

    def run(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        """Run a statement and return its rows."""
        if self._driver is None:
            auth = (self.username, self.password or "") if self.username else None
            self._driver = neo4j.GraphDatabase.driver(self.uri, auth=auth, connection_timeout=5)
        result = self._driver.execute_query(statement, parameters, database_=self.database)
        return [record.data() for record in result.records]

    def close(self) -> None:
        """Close the connections that statements were run on."""
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()

    def empty(self) -> None:
        """Remove every tool and server."""
        self.run(_EMPTY)


def launcher() -> Any:
    """Return the launcher of the Maven artifacts, which is a script and no package's module."""
    if "neo4j_launch" not in sys.modules:
        path = Path(__file__).parents[3] / "graph" / "neo4j" / "launch.py"
        spec = importlib.util.spec_from_file_location("neo4j_launch", path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["neo4j_launch"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["neo4j_launch"]


class CrashingNeo4j:
    """A Neo4j process of the tests' own, to be killed, stopped and started again on the same home.

    Args:
        home: its folder.
    """

    def __init__(self, home: Path) -> None:
        try:
            launcher().jars()
        except launcher().UnavailableError as error:
            raise NoNeo4jError(str(error)) from None
        self.server = launcher().new_server(home)
        self.access = Access(self.server.uri, "neo4j", self.server.password)
        self.is_stopped = False

    def start(self, **extra: str) -> None:
        """Start it and wait until it answers; does nothing where it runs."""
        if self.server.process is None or self.server.process.poll() is not None:
            self.server.start(dbms__security__auth_lock_time="1s", **extra)

    def stop(self) -> None:
        """Halt the process, which keeps its sockets and answers nothing."""
        self.server.send(signal.SIGSTOP)
        self.is_stopped = True

    def go_on(self) -> None:
        """Let a halted process go on."""
        if self.is_stopped:
            self.server.send(signal.SIGCONT)
            self.is_stopped = False

    def shut_down(self) -> None:
        """End it in good order, which takes about ten seconds."""
        self.access.close()
        self.server.send(signal.SIGTERM)
        self.server.process.wait(60)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.access.close()
        self.go_on()
        self.server.kill()


@contextmanager
def any_neo4j(home: Path, given: Mapping[str, str]) -> Iterator[Access | CrashingNeo4j]:
    """Yield the first Neo4j that can be had: one that is there already, or a process of the tests' own, not started.

    Raises:
        NoNeo4jError: none can; the message tells each reason.
    """
    if uri := given.get("NEO4J_URI", "").strip():
        access = _given(uri, given)
        yield access
        access.empty()
        access.close()
    elif (docker := _docker()) is not None:
        with docker as access:
            yield access
            access.close()
    else:
        with own_neo4j(home) as process:
            yield process


@contextmanager
def own_neo4j(home: Path) -> Iterator[CrashingNeo4j]:
    """Yield a process of the tests' own, not started, and end it.

    Raises:
        NoNeo4jError: it can't be had.
    """
    process = CrashingNeo4j(home)
    try:
        yield process
    finally:
        process.kill()


def _given(uri: str, given: Mapping[str, str]) -> Access:
    access = Access(uri, given.get("NEO4J_USERNAME", "neo4j"), given.get("NEO4J_PASSWORD"), given.get("NEO4J_DATABASE"))
    if access.run("MATCH (s:Server) RETURN s.name AS name LIMIT 1"):
        access.close()
        raise NoNeo4jError("the graph at NEO4J_URI holds servers, and the tests would remove them; give an empty one")
    return access


def _docker() -> Any:
    """Return a context manager that runs the image, or None where no engine answers."""
    if shutil.which("docker") is None:
        return None
    asked = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=20)
    return _in_docker() if asked.returncode == 0 else None


@contextmanager
def _in_docker() -> Iterator[Access]:
    password = secrets.token_hex(8)
    command = ["docker", "run", "--rm", "-d", "-p", "127.0.0.1::7687", "-e", f"NEO4J_AUTH=neo4j/{password}", IMAGE]
    started = subprocess.run(command, capture_output=True, text=True, check=False)
    if started.returncode:
        raise NoNeo4jError(f"Docker could not run {IMAGE}: {started.stderr.strip()[-300:]}")
    container = started.stdout.strip()
    try:
        port = subprocess.check_output(["docker", "port", container, "7687/tcp"], text=True).strip().rpartition(":")[2]
        access = Access(f"bolt://127.0.0.1:{port}", "neo4j", password)
        until = time.monotonic() + _START_S
        while True:
            try:
                access.run("RETURN 1")
                break
            except (neo4j.exceptions.DriverError, neo4j.exceptions.Neo4jError, OSError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        yield access
    finally:
        subprocess.run(["docker", "rm", "-f", container], capture_output=True, check=False)
