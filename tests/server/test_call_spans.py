"""Each call's span bears the revision of the surface that the call was made under."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastmcp import Client
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from agent_utilities import selection_headers
from tests.server.servers import log_server, over_http
from tests.server.spans import span_exporter

pytestmark = pytest.mark.anyio
ATTRIBUTE = "agent_utilities.revision"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """Receives every span of this process."""
    return span_exporter()


@pytest.fixture
def spans(exporter: InMemorySpanExporter) -> Iterator[InMemorySpanExporter]:
    """Receives the spans of this test."""
    exporter.clear()
    yield exporter
    exporter.clear()


def revisions(spans: InMemorySpanExporter) -> list[object]:
    return [span.attributes[ATTRIBUTE] for span in spans.get_finished_spans() if ATTRIBUTE in (span.attributes or {})]


async def test_a_call_bears_the_revision_of_the_list_before_it(spans: InMemorySpanExporter) -> None:
    app, client = over_http(log_server(), headers=selection_headers(tools=["tail_log"]))
    async with app.router.lifespan_context(app), client:
        listed = await client.session.list_tools()
        await client.call_tool("tail_log")
    assert revisions(spans) == [listed.meta["agent-utilities/selection"]["revision"]]


async def test_callers_with_other_bounds_bear_other_revisions(spans: InMemorySpanExporter) -> None:
    server = log_server()
    for tools in (["tail_log"], ["tail_log", "search_logs"]):
        app, client = over_http(server, headers=selection_headers(tools=tools))
        async with app.router.lifespan_context(app), client:
            await client.call_tool("tail_log")
    assert len(set(revisions(spans))) == 2


async def test_a_call_bears_its_own_callers_revision_whoever_lists_meanwhile(spans: InMemorySpanExporter) -> None:
    users = {"admin": {"client_id": "a", "scopes": ["admin"]}, "user": {"client_id": "u", "scopes": []}}
    server = log_server(auth=StaticTokenVerifier(tokens=users))
    server.tool(lambda: "gold", name="vault", auth=lambda context: "admin" in context.token.scopes)
    told = {}
    for user in ("user", "admin"):
        app, client = over_http(server, headers={"authorization": f"Bearer {user}"})
        async with app.router.lifespan_context(app), client:
            told[user] = (await client.session.list_tools()).meta["agent-utilities/selection"]["revision"]
    app, client = over_http(server, headers={"authorization": "Bearer user"})
    async with app.router.lifespan_context(app), client:
        await client.call_tool("tail_log")
    assert revisions(spans) == [told["user"]] != [told["admin"]]


async def test_a_list_alone_makes_no_such_span(spans: InMemorySpanExporter) -> None:
    async with Client(log_server()) as client:
        await client.list_tools()
    assert revisions(spans) == []
