"""A router, a server's search, its lists and `eval` rank a request alike: they stand on one ranker."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client

from agent_utilities import AgentServer, ToolRouter, create_mcp_server
from agent_utilities.cli.evaluation.data import Request, read_tools
from agent_utilities.cli.evaluation.run import Evaluation
from agent_utilities.query.ranking.open import has_minilm, open_ranker
from agent_utilities.usage.model import Learned
from tests.query.graph.wrapped import until
from tests.search.catalogs import TOPICS, VERBS, add, catalog

pytestmark = pytest.mark.anyio
REQUEST = "show the song, then archive a recipe that I cooked"
N_TOOLS = 10
RANKERS = ["lexical", pytest.param("hybrid", marks=pytest.mark.skipif(not has_minilm(), reason="no offline model"))]


def a_server(ranker: str, folder: Path, **variables: str) -> AgentServer:
    environ = {"MCP_RANKER": ranker, "MCP_GRAPH_FOLDER": str(folder), "MCP_GRAPH_DEADLINE_MS": "60000", **variables}
    server = create_mcp_server("office", environ=environ)
    for noun, text in TOPICS.items():
        for verb in VERBS:
            add(server, f"{noun}_{verb}", f"{verb.title()}s {text}.")  # no tag: one that names begin with is a server
    return server


async def once_indexed(ask: Callable[[], Any]) -> Mapping[str, Any]:
    """Return the first answer that tells no cause why it could be better."""
    answers: list[Mapping[str, Any]] = []

    async def is_best() -> bool:
        answers.append(await ask())
        return "cause" not in answers[-1]

    await until(is_best, "indexed", seconds=60)
    return answers[-1]


async def by_a_list(ranker: str, folder: Path) -> list[str]:
    app = a_server(ranker, folder).http_app()
    transport = httpx2.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8001", timeout=60) as client,
    ):

        async def ask() -> Mapping[str, Any]:
            return (await client.get("/tools", params={"q": REQUEST})).json()["selection"]

        return list((await once_indexed(ask))["ranked"])


async def by_a_search(ranker: str, folder: Path) -> list[str]:
    async with Client(a_server(ranker, folder, MCP_TOOL_SEARCH="on")) as client:

        async def ask() -> Mapping[str, Any]:
            arguments = {"query": REQUEST, "max_results": N_TOOLS}
            return (await client.call_tool("tool_search", arguments)).structured_content or {}

        return [tool["name"] for tool in (await once_indexed(ask))["tools"]]


async def by_a_router(ranker: str) -> list[str]:
    router = ToolRouter(Client(a_server("lexical", Path.cwd(), MCP_GRAPH="off")), ranker=ranker)
    async with router:
        await router.indexed()
        return list((await router.search(REQUEST, N_TOOLS)).names)


def by_eval(ranker: str, folder: Path) -> list[str]:
    file = folder / "tools.jsonl"
    rows = [
        {
            "id": each["name"],
            "name": each["name"],
            "description": each["description"],
            "server": "office",
            "input_schema": each["inputSchema"],
        }
        for each in catalog()
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    evaluation = Evaluation(read_tools(file), open_ranker(ranker), Learned(), [])
    (ranked,) = evaluation.rank([Request("1", REQUEST, ())], frozenset())
    return list(ranked.ranked[:N_TOOLS])


@pytest.mark.parametrize("ranker", RANKERS)
async def test_one_request_has_the_same_tools_in_the_same_order_by_each(ranker: str, tmp_path: Path) -> None:
    evaluated = by_eval(ranker, tmp_path)
    assert len(evaluated) == N_TOOLS
    assert {evaluated[0].split("_")[0], evaluated[1].split("_")[0]} == {"song", "recipe"}
    assert await by_a_search(ranker, tmp_path) == evaluated
    assert await by_a_router(ranker) == evaluated
    listed = (await by_a_list(ranker, tmp_path))[:N_TOOLS]  # as many as answer it, which may be fewer
    assert listed == evaluated[: len(listed)] != []
