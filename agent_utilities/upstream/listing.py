"""Lists all that an upstream has, page by page, and takes it as a snapshot."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import mcp_types

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.connection import Live
from agent_utilities.upstream.snapshot import Snapshot

ItemT = TypeVar("ItemT", bound=mcp_types.Tool | mcp_types.Prompt | mcp_types.Resource | mcp_types.ResourceTemplate)


@dataclass(frozen=True, slots=True)
class ListingBounds:
    """How much of a listing is taken.

    Args:
        n_items: components of one kind.
        n_pages: pages of one kind.
    """

    n_items: int = 20_000
    n_pages: int = 1_000


async def take_snapshot(live: Live, config: UpstreamConfig, bounds: ListingBounds) -> Snapshot:
    """Return all that an upstream lists now.

    Args:
        live: the connection to it.
        config: the upstream's.
        bounds: how much is taken.
    """
    session, has = live.session, live.server_capabilities
    problems: list[str] = []

    async def listed(
        kind: str, is_there: object, list_page: Callable[..., Awaitable[Any]], field: str
    ) -> tuple[Any, ...]:
        if is_there is None:
            return ()
        return await _all_pages(kind, list_page, field, bounds, problems)

    return Snapshot(
        upstream=config.name,
        config_digest=config.digest,
        taken_at_s=time.time(),
        protocol_version=live.protocol_version,
        server_info=_plain(live.server_info),
        instructions=live.instructions,
        capabilities=_plain(has),
        tools=await listed("tool", has.tools, session.list_tools, "tools"),
        prompts=await listed("prompt", has.prompts, session.list_prompts, "prompts"),
        resources=await listed("resource", has.resources, session.list_resources, "resources"),
        templates=await listed("template", has.resources, session.list_resource_templates, "resource_templates"),
        problems=tuple(problems),
    )


async def _all_pages(
    kind: str, list_page: Callable[..., Awaitable[Any]], field: str, bounds: ListingBounds, problems: list[str]
) -> tuple[Any, ...]:
    found: dict[str, Any] = {}
    cursor: str | None = None
    for _ in range(bounds.n_pages):
        page = await list_page(params=mcp_types.PaginatedRequestParams(cursor=cursor) if cursor else None)
        for item in getattr(page, field):
            name = _key(item)
            if name in found:
                problems.append(f"{kind} {name!r} is listed twice; the first is taken")
            else:
                found[name] = item
        if len(found) >= bounds.n_items:
            problems.append(f"over {bounds.n_items} {kind}s; the first are taken")
            break
        cursor = page.next_cursor
        if cursor is None:
            break
    else:
        problems.append(f"over {bounds.n_pages} pages of {kind}s; the first are taken")
    return tuple(found.values())[: bounds.n_items]


def _key(item: mcp_types.Tool | mcp_types.Prompt | mcp_types.Resource | mcp_types.ResourceTemplate) -> str:
    if isinstance(item, mcp_types.Resource):
        return str(item.uri)
    if isinstance(item, mcp_types.ResourceTemplate):
        return item.uri_template
    return item.name


def _plain(value: mcp_types.Implementation | mcp_types.ServerCapabilities | None) -> dict[str, Any]:
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if value is not None else {}
