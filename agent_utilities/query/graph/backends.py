"""Graph backends: Neo4j where it is configured, else a file in the user's cache folder."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Iterable, Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar

from agent_utilities.errors import SettingsError
from agent_utilities.query.graph.base import Cause, GraphError, Statement, ToolGraph
from agent_utilities.runtime.hosts import shown_address
from agent_utilities.runtime.process_io import own_folder
from agent_utilities.runtime.waiting import in_turns

logger = logging.getLogger("agent_utilities.graph")

_T = TypeVar("_T")
_POOL = 16
"""Connections: twice the number of queries at once, so that a refresh gets one too."""

_CONNECT_S = 1.0
_CAUSES: tuple[tuple[str, Cause], ...] = (
    # Before the refusals: Neo4j 5 answers `WriteOnReadOnlyAccessDatabase`, older ones `ForbiddenOnReadOnlyDatabase`.
    ("ReadOnly", "read-only"),
    ("AccessMode", "read-only"),
    ("NotALeader", "read-only"),
    ("Unauthorized", "not authorized"),
    ("Forbidden", "not authorized"),
    ("CredentialsExpired", "not authorized"),
    ("TokenExpired", "not authorized"),
    ("AuthenticationRateLimit", "not authorized"),
    ("FailedToRegisterQuery", "no space"),
)


class Neo4jGraph:
    """The tool graph on a Neo4j server or cluster; the URI's scheme chooses TLS (`neo4j+s`, `bolt+s`)."""

    backend = "neo4j"

    def __init__(
        self, uri: str, username: str | None = None, password: str | None = None, database: str | None = None
    ) -> None:
        self._uri = uri
        self._auth = (username, password or "") if username else None
        self._database = database
        self._driver: Any = None
        self._neo4j: Any = None

    async def open(self) -> None:
        """Connect, and apply the schema where this user may."""
        if self._driver is not None:
            return
        self._neo4j = await asyncio.to_thread(import_module, "neo4j")
        try:
            driver = self._neo4j.AsyncGraphDatabase.driver(
                self._uri,
                auth=self._auth,
                connection_timeout=_CONNECT_S,
                connection_acquisition_timeout=_CONNECT_S,
                max_transaction_retry_time=0,
                max_connection_pool_size=_POOL,
                liveness_check_timeout=30,
                notifications_min_severity="OFF",
                user_agent="agent-utilities",
            )
        except Exception as error:
            raise GraphError("failed", error) from error
        try:
            await self._or_graph_error(driver.execute_query("RETURN 1", database_=self._database))
            await self._apply_schema(driver)
        except BaseException:
            await driver.close()
            raise
        self._driver = driver

    async def _apply_schema(self, driver: Any) -> None:
        text = (files("agent_utilities.query.graph") / "schema.cypher").read_text(encoding="utf-8")
        code = "\n".join(line for line in text.splitlines() if not line.startswith("//"))
        try:
            for statement in filter(None, map(str.strip, code.split(";"))):
                await self._or_graph_error(driver.execute_query(statement, database_=self._database))
        except GraphError as error:
            logger.warning("can't apply the graph's schema (%s); reading goes on without it", error)

    async def close(self) -> None:
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    async def read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        """Run a statement and return its rows, by column name; the server refuses it if it writes."""
        driver, only_read = self._open_driver(), self._neo4j.RoutingControl.READ
        options = {"database_": self._database, "bookmark_manager_": None, "result_transformer_": _rows}
        rows: list[dict[str, Any]] = await self._or_graph_error(
            driver.execute_query(statement, parameters, only_read, **options)
        )
        return rows

    async def write(self, statements: Iterable[Statement]) -> None:
        """Run statements in one transaction: all of them, or none."""
        driver = self._open_driver()

        async def transact() -> None:
            async with driver.session(database=self._database) as session, await session.begin_transaction() as tx:
                for statement, parameters in statements:
                    await (await tx.run(statement, parameters)).consume()
                await tx.commit()

        await self._or_graph_error(transact())

    def _open_driver(self) -> Any:
        if self._driver is None:
            raise GraphError("unreachable", f"{self._uri} is not open")
        return self._driver

    async def _or_graph_error(self, call: Awaitable[_T]) -> _T:
        """Await a driver's call; its errors become `GraphError`, with the cause that callers see."""
        try:
            return await call
        except self._neo4j.exceptions.Neo4jError as error:
            code = str(error.code)
            raise GraphError(next((cause for part, cause in _CAUSES if part in code), "failed"), error) from error
        except (self._neo4j.exceptions.DriverError, OSError) as error:
            raise GraphError("unreachable", error) from error


async def _rows(result: Any) -> list[dict[str, Any]]:
    return [dict(record) async for record in in_turns(result)]


Backend = Literal["auto", "off", "embedded", "neo4j"]
_SCHEMES = ("bolt", "bolt+s", "bolt+ssc", "neo4j", "neo4j+s", "neo4j+ssc")


def graph_backend(backend: Backend, server: str, folder: str, environ: Mapping[str, str]) -> ToolGraph | None:
    """Return the unopened backend of a server's graph, or None where the graph is off.

    `auto` is Neo4j where `NEO4J_URI` is set, else embedded, in `folder` or the user's cache. A missing or invalid URI
    raises `SettingsError`.
    """
    if backend == "off":
        return None
    uri = environ.get("NEO4J_URI", "").strip()
    if backend == "neo4j" or (backend == "auto" and uri):
        if uri.partition("://")[0] not in _SCHEMES:
            hint = "set it to an address such as bolt://127.0.0.1:7687 or neo4j+s://host"
            raise SettingsError("not a Neo4j address", shown_address(uri), "env NEO4J_URI", hint)

        username, password = environ.get("NEO4J_USERNAME"), environ.get("NEO4J_PASSWORD")
        return Neo4jGraph(
            uri, username or ("neo4j" if password else None), password, environ.get("NEO4J_DATABASE") or None
        )
    from agent_utilities.query.graph.embedded import EmbeddedGraph

    return EmbeddedGraph(embedded_path(server, folder))


def embedded_path(server: str, folder: str = "") -> Path:
    """Return the file of a server's embedded graph."""
    base = Path(folder) if folder else own_folder("cache") / "graph"
    return base / f"{re.sub(r'[^A-Za-z0-9._-]', '_', server)[:100] or 'server'}.lbdb"
