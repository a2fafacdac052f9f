"""Prompt: what of the server is in an agent's prompt on every turn, by server and section, and what that costs."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from starlette.requests import Request as HttpRequest

from agent_utilities.catalog.context import DEFERRED, SECTIONS
from agent_utilities.catalog.tokens import MANY_TOKENS
from agent_utilities.features.context.feature import ContextReport
from agent_utilities.features.page.panel import PageError, Panel, Reader, Table
from agent_utilities.features.page.surface import asked
from agent_utilities.mcp.agent_server import AgentServer


async def look(host: AgentServer, reader: Reader, request: HttpRequest) -> dict[str, Any]:
    """Return the context report of the reader's selection, and money a day at a price that they give.

    Raises:
        PageError: the price or the number of turns can't be read.
    """
    feature = host.feature(ContextReport)
    if feature is None:
        raise PageError("this server has no context report: its author left the feature out")
    report, _, _, _ = await feature.of(await asked(host, reader, request))
    by_server: dict[str, dict[str, int]] = defaultdict(dict)
    for row in report.rows:
        by_server[row.server][row.section] = row.tokens
    in_prompt = {name: sum(n for section, n in each.items() if section != DEFERRED) for name, each in by_server.items()}
    servers = sorted(by_server, key=lambda name: (-sum(by_server[name].values()), name))
    price, turns = (_number(request, name, default) for name, default in (("price", 3.0), ("turns", 1000.0)))
    return {
        "report": report,
        "sections": SECTIONS,
        "servers": [(name, in_prompt[name], by_server[name]) for name in servers],
        "widest": max(report.total, report.undeferred_tokens, MANY_TOKENS),
        "budget": MANY_TOKENS,
        "price": price,
        "turns": turns,
        "money": [n * turns * price / 1e6 for n in (report.total, report.undeferred_tokens)],
        "tables": {
            "prompt": Table(
                ("section", "server", "tools", "tokens"),
                [(row.section, row.server, row.n_tools, row.tokens) for row in report.rows],
            )
        },
    }


def _number(request: HttpRequest, name: str, default: float) -> float:
    text = request.query_params.get(name, "").strip()
    try:
        number = float(text or default)
        if not 0 <= number <= 1e9:
            raise ValueError
    except ValueError:
        raise PageError(f"{name} can't be read: {text!r}; write a number from 0 up, such as {default:g}") from None
    return number


PANEL = Panel("prompt", "Prompt", look)
