"""What rules of access and tokens cost: a caller who was seen before, a list and a call beside a server without.

python benchmarks/access.py [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

import httpx2
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from rich.console import Console
from rich.table import Table
from starlette.requests import Request

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access.feature import AccessControl
from agent_utilities.access.rules import rules_of
from agent_utilities.access.token_file import new_token
from agent_utilities.seam.caller import caller_of
from agent_utilities.seam.host import find
from agent_utilities.selection.parse import read_request
from agent_utilities.server.callers import STATE
from benchmarks.measure import Spread, spread
from tests.wire.wires import modern_request

N_RULES, N_TOKENS, N_TOOLS = 20, 50, 50
RULES_US, TOKEN_US = 20.0, 200.0
"""Goals: microseconds for a caller whose rule is known, and for a token."""
_BATCH, _REQUESTS = 500, 30


def server(folder: Path, *, has_tokens: bool, has_rules: bool) -> tuple[AgentServer, str]:
    """Return a server of some tools, and the token of the caller whom the last rule fits."""
    tokens, settings = folder / "tokens.json", folder / "agent-utilities.toml"
    token = ""
    if has_tokens:
        token = [new_token(tokens, f"person{i}") for i in range(N_TOKENS)][N_RULES - 1]
    lines = [f'[auth]\ntokens = "{tokens}"'] if has_tokens else []
    for i in range(N_RULES if has_rules else 0):
        lines.append(f'[profiles.p{i}]\ndisabled_tools = ["nothing{i}", "none*{i}"]')
        lines.append(f'[[access]]\nwho = {{ subject = "person{i}", issuer = "local" }}\nprofile = "p{i}"')
    settings.write_text("\n".join(lines))
    mcp = create_mcp_server("cost", environ={"MCP_CONFIG_FILE": str(settings), "MCP_GRAPH": "off"})
    for i in range(N_TOOLS):
        mcp.tool(name=f"tool_{i}", tags={"some"})(lambda: "done")
    return mcp, token


async def micro(rounds: int) -> dict[str, Spread]:
    """Return microseconds that each piece takes."""
    with tempfile.TemporaryDirectory() as folder:
        mcp, token = server(Path(folder), has_tokens=True, has_rules=True)
        mcp.complete()
        access = find(mcp, AccessControl)
        assert access is not None
        tokens = access.tokens
        assert tokens is not None
        verified = await tokens.verify_token(token)
        assert verified is not None
        asked = read_request(b"tools=tool*", ())
        scope = {"type": "http", "headers": [], "user": AuthenticatedUser(verified), "state": {STATE: asked}}
        request, caller = Request(scope), caller_of(Request(scope))
        assert caller is not None
        assert mcp.callers.selection_of(request).granted
        rules = rules_of(mcp.surface.operator.settings, mcp.surface.operator.files)

        pieces: dict[str, Callable[[], object]] = {
            "who calls, of a verified token": lambda: caller_of(request),
            "rules, cached (grant of a caller)": lambda: mcp.callers.grant_of(caller),
            f"rules, not cached ({N_RULES}, the last fits)": lambda: rules.access(caller.claims),
            "selection of a request, with all of it": lambda: mcp.callers.selection_of(request),
        }
        taken: dict[str, list[float]] = {name: [] for name in [*pieces, "a token"]}
        for _ in range(rounds):
            for name, piece in pieces.items():
                started = time.perf_counter()
                for _ in range(_BATCH):
                    piece()
                taken[name].append((time.perf_counter() - started) / _BATCH * 1e6)
            started = time.perf_counter()
            for _ in range(_BATCH):
                await tokens.verify_token(token)
            taken["a token"].append((time.perf_counter() - started) / _BATCH * 1e6)
    return {name: spread(values) for name, values in taken.items()}


async def beside(rounds: int) -> dict[str, dict[str, Spread]]:
    """Return milliseconds of processor time of a list and a call, by server, none waiting for another."""
    kinds = {
        "off": (False, False),
        "off again": (False, False),
        "tokens": (True, False),
        "tokens, 20 rules": (True, True),
    }
    asked = {"list": ("tools/list", {}), "call": ("tools/call", {"name": "tool_7", "arguments": {}})}
    async with AsyncExitStack() as stack:
        webs: dict[str, httpx2.AsyncClient] = {}
        for kind, (has_tokens, has_rules) in kinds.items():
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            mcp, token = server(Path(folder), has_tokens=has_tokens, has_rules=has_rules)
            app = mcp.http_app(host_origin_protection=False, json_response=True)
            await stack.enter_async_context(app.router.lifespan_context(app))
            headers = {"authorization": f"Bearer {token}"} if token else {}
            transport = httpx2.ASGITransport(app=app)
            web = httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
            webs[kind] = await stack.enter_async_context(web)
        taken = {what: {kind: list[float]() for kind in kinds} for what in asked}
        for number in range(rounds + 1):
            order = [(what, kind) for what in asked for kind in kinds]
            Random(number).shuffle(order)
            for what, kind in order:
                body, routing = modern_request(*asked[what])
                ms = await _block(partial(webs[kind].post, "/mcp", json=body, headers=dict(routing)))
                if number:
                    taken[what][kind].append(ms)
    return {what: {kind: spread(values) for kind, values in by.items()} for what, by in taken.items()}


async def _block(send: Callable[[], Awaitable[httpx2.Response]]) -> float:
    started = time.process_time()
    for _ in range(_REQUESTS):
        assert (await send()).status_code == 200
    return (time.process_time() - started) / _REQUESTS * 1e3


def main() -> None:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    console = Console()
    goals = {"selection of a request, with all of it": RULES_US, "a token": TOKEN_US}
    table = Table("piece", "µs", "goal", title="Pieces")
    for name, found in asyncio.run(micro(rounds)).items():
        table.add_row(name, found.text("{:.2f}"), f"<= {goals[name]:.0f}" if name in goals else "")
    console.print(table)
    for what, by_kind in asyncio.run(beside(rounds)).items():
        table = Table("server", "ms of processor time", title=f"A {what}, {N_TOOLS} tools, with its client")
        for kind, found in by_kind.items():
            table.add_row(kind, found.text())
        console.print(table)


if __name__ == "__main__":
    main()
