"""The processes of `resolution.py`: workers with a graph, a Neo4j, and the released package with its own engine."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.contenders import RELEASED, Contender, Process, _install_commands, _run, environment, released
from benchmarks.resolution_worker import SERVER

WORKER = Path(__file__).with_name("resolution_worker.py")
LAUNCHER = Path(__file__).parents[1] / "graph" / "neo4j" / "launch.py"
KERNEL = "2.20.0"
"""A version of epistemic-graph that 1.26.4 can import; it asks for any from 2.15 on, and can't with the newest."""

_FORGET = (
    "MATCH (s:Server {name: $name})-[:PROVIDES]->(t) DETACH DELETE t",
    "MATCH (s:Server {name: $name}) DETACH DELETE s",
)
_AS_RELEASED = """
MATCH (s:Server {name: $name})
UNWIND $rows AS r
CREATE (s)-[:PROVIDES]->(:CallableResource {id: 'res:' + r.name, name: r.name, description: r.description})
"""


class ResolvingProcess(Process):
    """A process of `resolution_worker.py`.

    Args:
        contender: whom it stands for.
        variables: further environment variables, such as those that choose the graph.
    """

    def __init__(self, contender: Contender, variables: Mapping[str, str]) -> None:
        self.contender = contender
        self._home = tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True)
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [contender.python, str(WORKER), contender.kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(self._home.name) | {"XDG_RUNTIME_DIR": self._home.name, **variables},
            cwd=self._home.name,
            text=True,
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, and the engine's server that 1.26.4 started under its home and leaves running."""
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if f"{self._home.name}/".encode() in entry.read_bytes():
                    os.kill(int(entry.parent.name), signal.SIGKILL)
        super().__exit__(kind, error, trace)


class Neo4jServer:
    """Where a Neo4j is, and what is done to this benchmark's own nodes in it.

    Args:
        variables: `NEO4J_URI`, `NEO4J_USERNAME`, `NEO4J_PASSWORD` and perhaps `NEO4J_DATABASE`.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = dict(variables)

    def forget(self) -> None:
        """Delete the nodes of the benchmark's server, and no others."""
        for statement in _FORGET:
            self._run(statement)

    def fill_as_released(self, rows: list[dict[str, str]]) -> None:
        """Put tools as agent-utilities 1.x does: no tags, no key."""
        self.forget()
        now = "CREATE (:Server {name: $name, id: 'srv:' + $name, timestamp: toString(datetime())})"
        self._run("CREATE INDEX callable_name IF NOT EXISTS FOR (t:CallableResource) ON (t.name)")
        self._run(now)
        for start in range(0, len(rows), 1000):
            self._run(_AS_RELEASED, rows=rows[start : start + 1000])

    def version(self) -> str:
        """Return what the server calls itself."""
        found = self._run("CALL dbms.components() YIELD name, versions, edition RETURN name, versions[0] AS v, edition")
        return "{name} {v} {edition}".format(**found[0])

    def _run(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        import neo4j

        given = self.variables
        auth = (given.get("NEO4J_USERNAME", "neo4j"), given["NEO4J_PASSWORD"]) if "NEO4J_PASSWORD" in given else None
        with neo4j.GraphDatabase.driver(given["NEO4J_URI"], auth=auth) as driver:
            done = driver.execute_query(
                statement, {"name": SERVER, **parameters}, database_=given.get("NEO4J_DATABASE")
            )
        return [record.data() for record in done.records]


@contextmanager
def neo4j_server() -> Iterator[Neo4jServer | str]:
    """Give the Neo4j of `NEO4J_URI`, else one started for this run, else why there is none."""
    names = ("NEO4J_URI", "NEO4J_USERNAME", "NEO4J_PASSWORD", "NEO4J_DATABASE")
    if os.environ.get("NEO4J_URI"):
        yield Neo4jServer({name: os.environ[name] for name in names if os.environ.get(name)})
        return
    launch = _launcher()
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as folder:
        server = launch.new_server(Path(folder))
        try:
            server.start()
        except launch.UnavailableError as error:
            yield str(error)
            return
        try:
            found = Neo4jServer({names[0]: server.uri, names[1]: "neo4j", names[2]: server.password})
            yield found
            found.forget()
        finally:
            server.kill()


def _launcher() -> Any:
    spec = importlib.util.spec_from_file_location("neo4j_launch", LAUNCHER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def released_with_engine() -> Contender:
    """Return 1.26.4 with a kernel it can import and a Neo4j driver, in an environment of its own.

    Raises:
        ContenderError: it can't be installed.
    """
    base = Path(released().python).parents[1]
    home = base.with_name(f"{base.name}-epistemic-graph-{KERNEL}")
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        hosts = [f"{name}=={version(name)}" for name in ("fastmcp", "mcp")]
        wanted = [f"agent-utilities[mcp,neo4j]=={RELEASED}", f"epistemic-graph[full,numeric]=={KERNEL}", *hosts]
        shutil.rmtree(home, ignore_errors=True)
        for command in _install_commands(home, python, wanted):
            _run(command)
        (home / "complete").touch()
    return Contender(f"{RELEASED} + engine", "released-graph", str(python))


def why_unresolved(contender: Contender) -> str:
    """Return what 1.26.4 says when its graph is imported, as its `?q=` does, and where it swallows the error."""
    code = "from agent_utilities.knowledge_graph.core.engine import IntelligenceGraphEngine as E; print(E.get_active())"
    with tempfile.TemporaryDirectory(prefix="benchmark-") as home:
        done = subprocess.run(
            [contender.python, "-c", code],
            capture_output=True,
            text=True,
            env=environment(home),
            cwd=home,
            timeout=120,
            check=False,
        )
    said = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    return said[-1] if said else "nothing"
