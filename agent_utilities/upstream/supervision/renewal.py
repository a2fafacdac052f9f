"""Lists all that an upstream has, within bounds, and keeps that up to date behind the lists answered from it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import mcp_types
from mcp import MCPError
from pydantic import ValidationError

from agent_utilities.runtime.waiting import in_daemon_thread, is_set
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.connections.session import (
    PROMPT,
    RESOURCE,
    TEMPLATE,
    TOOL,
    Component,
    Kind,
    UpstreamSession,
    has_ended,
    is_closed,
    learn_tools,
    parsed,
    plain,
)
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.http.http_client import http_trouble
from agent_utilities.upstream.secrets import secrets_of, without_secrets
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.supervision.backoff import ListingBounds

if TYPE_CHECKING:
    from agent_utilities.upstream.supervision.opening import Opener


_N_PROBLEMS = 100


async def take_snapshot(
    live: UpstreamSession, config: UpstreamConfig, bounds: ListingBounds, before: Snapshot | None = None
) -> Snapshot:
    """Return all that an upstream lists now. Of what it has no capability for, it is not asked.

    A list other than of its tools that it fails to give costs none of the others: as such servers are, that need a
    database to say what resources they have, and none for their tools.

    Raises:
        TimeoutError: listing its tools takes longer than it may.
        MCPError: it answers with an error, or the connection has ended.
        ValidationError: it answers with what is no listing.
    """
    has = live.server_capabilities or mcp_types.ServerCapabilities()
    listing = _Listing(live, bounds, config.list_timeout_s)
    tools = await listing.all(TOOL) if has.tools else ()
    if live.is_modern:
        await learn_tools(live, tools)
    others: dict[str, tuple[Any, ...]] = {}
    of_others = (("prompts", PROMPT, has.prompts), ("resources", RESOURCE, has.resources))
    for name, kind, is_there in (*of_others, ("templates", TEMPLATE, has.resources)):
        others[name] = await listing.of(kind, getattr(before, name, ())) if is_there else ()
    problems = listing.problems
    if len(problems) > _N_PROBLEMS:
        problems[_N_PROBLEMS:] = [f"{len(problems) - _N_PROBLEMS} more that could not be taken"]
    return Snapshot(
        upstream=config.name,
        config_digest=config.digest,
        taken_at_s=time.time(),
        protocol_version=live.protocol_version or "",
        server_info=plain(live.server_info) if live.server_info is not None else {},
        instructions=live.instructions,
        capabilities=plain(has),
        tools=tools,
        problems=tuple(problems),
        n_absent=listing.n_absent,
        **others,
    )


class _Listing:
    """Takes the components of one upstream, within bounds that hold for each kind."""

    def __init__(self, live: UpstreamSession, bounds: ListingBounds, timeout_s: float) -> None:
        self._live, self._bounds, self._timeout_s = live, bounds, timeout_s
        self.problems: list[str] = []
        self.n_absent = 0
        """Of a gateway, how many of its own servers are not in its lists yet."""

    async def of(self, kind: Kind, before: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return all components of a kind; what it listed before, and a line in `problems`, where it fails to list."""
        try:
            return await self.all(kind)
        except TimeoutError:
            why = f"that took over {self._timeout_s:g} s"
        except ValidationError as error:
            why = f"it answers with what is none, {error.error_count()} errors"
        except MCPError as error:
            if has_ended(error) or http_trouble(error) is not None:
                raise
            if error.code == mcp_types.METHOD_NOT_FOUND:  # many that have resources know nothing of templates
                return ()
            why = f"it answers with an error: {error.message}"
        self.problems.append(f"{kind.name}s could not be listed, {why}"[:300])
        return before

    async def all(self, kind: Kind) -> tuple[Any, ...]:
        """Return all components of a kind, in the upstream's order; of two with one name the first."""
        async with asyncio.timeout(self._timeout_s):
            return tuple((await self._all(kind)).values())

    async def _all(self, kind: Kind) -> dict[str, Component]:
        taken: dict[str, Component] = {}
        n_bytes, cursor, seen = 0, None, set[str]()
        for _ in range(self._bounds.n_pages):
            raw = await self._live.list_page(kind, cursor)
            self.n_absent = max(self.n_absent, _n_absent(raw))
            items, problems = await asyncio.to_thread(parsed, kind, raw, self._live.protocol_version or "")
            self.problems += problems
            for key, component, n_more in items:
                n_bytes += n_more
                if len(taken) >= self._bounds.n_items or n_bytes > self._bounds.n_bytes:
                    text = f"more {kind.name}s than the {len(taken)} that are taken: so many of one upstream, no more"
                    self.problems.append(text)
                    return taken
                if taken.setdefault(key, component) is not component:
                    self.problems.append(f"{kind.name} {key!r} is listed more than once; the first is taken")
            cursor = raw.get("nextCursor")
            if cursor is None:
                return taken
            if cursor in seen:
                self.problems.append(f"{kind.name}s: a page comes again, and what would follow it is left out")
                return taken
            seen.add(cursor)
        self.problems.append(f"{kind.name}s: over {self._bounds.n_pages} pages; what follows is left out")
        return taken


def _n_absent(raw: Mapping[str, Any]) -> int:
    """Return how many servers a gateway says that its list lacks for now; 0 of any other server."""
    told: Any = raw
    for key in ("_meta", "agent-utilities/selection", "absent"):
        told = told.get(key) if isinstance(told, Mapping) else None
    return len(told) if isinstance(told, list) else 0


logger = logging.getLogger(__name__)


class Renewal:
    """The snapshot of one upstream: when it is due, how it is taken anew, and kept.

    Args:
        snapshot: what it listed the last time; None where it was never reached.
        save: keeps a snapshot; called in a thread.
        on_change: called where what it lists has changed.
    """

    def __init__(
        self,
        snapshot: Snapshot | None,
        *,
        opener: Opener,
        save: Callable[[Snapshot], None],
        on_change: Callable[[], None],
    ) -> None:
        self.snapshot = snapshot
        self.changed = asyncio.Event()
        """Set where it is to be taken anew, however young it is."""
        self.was_tried = asyncio.Event()
        """Set once it was taken, or could not be, since its owner cleared it; before it is kept on a disk."""
        self._opener, self._save, self._on_change = opener, save, on_change
        self._turn = asyncio.Lock()
        self._began_s = 0.0
        self.trouble: UpstreamError | None = None
        """Why the last listing failed; None after one that did not."""
        if snapshot is not None and snapshot.n_absent > 0:
            self.changed.set()

    @property
    def due_in_s(self) -> float:
        """Seconds until it is to be taken anew for its age."""
        if self.snapshot is None:
            return 0.0
        age_s, max_age_s = time.time() - self.snapshot.taken_at_s, self._opener.policy.max_age_s
        return max(0.0, max_age_s - age_s) if age_s >= 0 else 0.0

    async def take(self, session: UpstreamSession, limit_s: float) -> None:
        """Take it anew, once for all who ask together.

        A gateway lists what it has, and has the rest as soon as its own servers have answered. Who ended it in between
        would end them too. So it is asked again while it lacks something.

        Args:
            limit_s: seconds after which that ends.

        Raises:
            UpstreamError: it could not be listed, for as long as the connection lasted.
            MCPError: the connection has ended.
        """
        clock, settle_s = asyncio.get_running_loop().time, self._opener.policy.settle_s
        asked_s = first_s = clock()
        while True:
            async with self._turn:
                if self._began_s < asked_s:
                    self._began_s = clock()
                    self.changed.clear()
                    await self._take(session)
            if self.trouble is not None:
                raise self.trouble
            lacking_s = clock() - first_s
            if self.snapshot is None or not self.snapshot.n_absent or lacking_s >= limit_s:
                return
            await asyncio.sleep(settle_s)
            await is_set(self.changed, within_s=lacking_s)
            asked_s = clock()

    async def _take(self, session: UpstreamSession) -> None:
        opener = self._opener
        try:
            snapshot = await take_snapshot(session, opener.config, opener.policy.bounds, self.snapshot)
        except Exception as error:
            if is_closed(error):
                raise
            self.trouble = opener.of_listing(error)
            return
        self.trouble = None
        try:
            await self._keep(await asyncio.to_thread(without_secrets, snapshot, secrets_of(opener.config)))
        except Exception:  # a fault of whoever is told of a change, or of the store, ends no renewal
            logger.exception("upstream %r: its snapshot could not be kept", opener.config.name)

    async def _keep(self, snapshot: Snapshot) -> None:
        """List by a snapshot, and keep it; a stop waits for the disk, but not for one that hangs."""
        saving = asyncio.ensure_future(in_daemon_thread(partial(self._save, snapshot)))
        before, self.snapshot = self.snapshot, snapshot
        try:
            if before is None or await asyncio.to_thread(lambda: before.digest != snapshot.digest):
                self._on_change()
            self.was_tried.set()
            for problem in snapshot.problems if before is None or before.problems != snapshot.problems else ():
                logger.warning("upstream %r: %s", snapshot.upstream, problem)
            await asyncio.shield(saving)
        except BaseException:
            await asyncio.wait([saving], timeout=self._opener.policy.disk_s)
            raise
