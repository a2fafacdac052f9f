"""Twenty-five plain requests to a server of GitHub's whole REST API: by words, and by FastMCP's own search.

    python benchmarks/openapi_requests.py                # ends with 1 under the goal
    python benchmarks/openapi_requests.py --file FILE    # GitHub's description, where npm is not to be had

The description is of the package `@octokit/openapi` (MIT), which `npm pack` fetches into a temporary folder. FastMCP's
search has the tools that FastMCP's own `from_openapi` makes. Shown is for how many requests an operation that would do
is first, and among the first fifteen; and how long the server takes to be made, for the whole API and a quarter of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
from fastmcp import Client, FastMCP
from fastmcp.server.providers.openapi import MCPType, RouteMap
from fastmcp.server.transforms.search import BM25SearchTransform
from rich.console import Console
from rich.table import Table

from agent_utilities import AgentServer
from agent_utilities.testing import memory_graph

PACKAGE, INSIDE = "@octokit/openapi@23.0.2", "package/generated/api.github.com.json"
N_FIRST, GOAL = 15, 22
DEADLINE_MS = "60000"
REQUESTS = {
    "merge a pull request": {"pulls/merge"},
    "list issues assigned to me": {"issues/list", "issues/list-for-authenticated-user"},
    "star a repository": {"activity/star-repo-for-authenticated-user"},
    "create a gist": {"gists/create"},
    "fork this repo": {"repos/create-fork"},
    "open a new issue": {"issues/create"},
    "comment on an issue": {"issues/create-comment"},
    "close the issue": {"issues/update"},
    "who am i logged in as": {"users/get-authenticated"},
    "show the branches of a repository": {"repos/list-branches"},
    "commit history": {"repos/list-commits"},
    "what is the latest release?": {"repos/get-latest-release"},
    "publish a release": {"repos/create-release"},
    "rerun the failed jobs of a workflow": {"actions/re-run-workflow-failed-jobs"},
    "trigger a workflow by hand": {"actions/create-workflow-dispatch"},
    "follow a user": {"users/follow"},
    "invite a collaborator to my repo": {"repos/add-collaborator"},
    "add a label to an issue": {"issues/add-labels"},
    "lock the conversation": {"issues/lock"},
    "my unread notifications": {"activity/list-notifications-for-authenticated-user"},
    "search code": {"search/code"},
    "ask somebody to review a pull request": {"pulls/request-reviewers"},
    "get the readme": {"repos/get-readme"},
    "delete a webhook": {"repos/delete-webhook", "orgs/delete-webhook"},
    "how much of my rate limit is left": {"rate-limit/get"},
}
"""What somebody types who has not read the description, and the operations that would do."""


def fetch(folder: Path) -> dict[str, Any]:
    """Return GitHub's description by npm."""
    if (npm := shutil.which("npm")) is None:
        sys.exit("skipped: npm is not installed, and no --file was given")
    done = subprocess.run([npm, "pack", PACKAGE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"skipped: npm has no {PACKAGE}: {done.stderr.strip()[-200:]}")
    with tarfile.open(folder / done.stdout.split()[-1]) as packed:
        description: dict[str, Any] = json.load(packed.extractfile(INSIDE) or sys.exit(f"no {INSIDE} in {PACKAGE}"))
    return description


def made(kind: type[FastMCP], description: Mapping[str, Any], **options: Any) -> tuple[Any, dict[str, str], float]:
    """Return a server whose tools are all operations, their ids by name, and the seconds that it took to be made."""
    ids: dict[str, str] = {}
    started = time.perf_counter()
    server = kind.from_openapi(
        dict(description),
        client=httpx2.AsyncClient(base_url="http://127.0.0.1"),
        route_maps=[RouteMap(mcp_type=MCPType.TOOL)],
        mcp_component_fn=lambda route, component: ids.update({component.name: route.operation_id or ""}),
        **options,
    )
    return server, ids, time.perf_counter() - started


async def by_words(description: Mapping[str, Any]) -> tuple[dict[str, list[str]], float, float]:
    """Return the ids that each request finds, best first, the seconds of making the server and of its first list."""
    environ = {"MCP_RANKER": "lexical", "MCP_GRAPH_DEADLINE_MS": DEADLINE_MS, "MCP_FIRST_LIST_S": "60"}
    server, ids, made_s = made(AgentServer, description, environ=environ, graph=memory_graph())
    app = server.http_app(host_origin_protection=False)
    transport = httpx2.ASGITransport(app=app)
    found: dict[str, list[str]] = {}
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as client,
    ):
        started, first_s = time.perf_counter(), 0.0
        for query in ("wake up", *REQUESTS):
            answer = await client.get("/tools", params={"q": query, "top_k": str(N_FIRST)})
            selection = answer.raise_for_status().json()["selection"]
            ranked = selection.get("ranked", []) if selection["status"] != "no_match" else []
            first_s = first_s or time.perf_counter() - started
            found[query] = [ids[name] for name in ranked if name in ids]
    return found, made_s, first_s


async def by_fastmcp(description: Mapping[str, Any]) -> tuple[dict[str, list[str]], float]:
    """Return the same by FastMCP's own server and search."""
    search = BM25SearchTransform(max_results=N_FIRST)
    server, ids, made_s = made(FastMCP, description, transforms=[search])
    found: dict[str, list[str]] = {}
    async with Client(server) as client:
        for query in REQUESTS:
            result = await client.call_tool("search_tools", {"query": query})
            found[query] = [ids[tool["name"]] for tool in result.structured_content["result"]]
    return found, made_s


def a_quarter(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description of every fourth path."""
    paths = dict(list(description["paths"].items())[::4])
    return {**description, "paths": paths}


def main() -> None:
    """Ask, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", type=Path, help=f"the file {Path(INSIDE).name} of {PACKAGE}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        description = json.loads(given.file.read_bytes()) if given.file else fetch(Path(folder))
    ours, made_s, first_s = asyncio.run(by_words(description))
    theirs, their_s = asyncio.run(by_fastmcp(description))
    quarter_s = made(AgentServer, a_quarter(description), graph=memory_graph())[2]
    console = Console(width=120, highlight=False)
    table = Table(title=f"{len(REQUESTS)} requests", title_justify="left")
    for heading in ("", "first", f"in the first {N_FIRST}"):
        table.add_column(heading)
    for lane, found in (("by words", ours), ("FastMCP's BM25", theirs)):
        table.add_row(lane, str(_n_within(found, 1)), str(_n_within(found, N_FIRST)))
    console.print(table)
    for query, wanted in REQUESTS.items():
        if not wanted & set(ours[query]):
            console.print(f"missed: {query!r}: {', '.join(ours[query][:3]) or 'nothing'}")
    console.print(f"made in {made_s:.1f} s, a quarter of it in {quarter_s:.1f} s, FastMCP's in {their_s:.1f} s")
    console.print(f"first list with a query {first_s:.1f} s after the start")
    sys.exit(_n_within(ours, N_FIRST) < GOAL)


def _n_within(found: Mapping[str, Sequence[str]], n: int) -> int:
    return sum(bool(wanted & set(found[query][:n])) for query, wanted in REQUESTS.items())


if __name__ == "__main__":
    main()
