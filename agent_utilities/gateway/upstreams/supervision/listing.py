"""Takes snapshots of an upstream's components, within limits, and renews them in the background."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mcp_types
from mcp import MCPError
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.connections.session import EndedError, UpstreamSession, learn_tools, plain
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.http.http_client import http_trouble
from agent_utilities.gateway.upstreams.secrets import secrets_of, without_secrets
from agent_utilities.gateway.upstreams.snapshot import Item, Snapshot
from agent_utilities.gateway.upstreams.supervision.backoff import Policy
from agent_utilities.gateway.upstreams.supervision.opening import Opener
from agent_utilities.protocol.fit import PROMPT, RESOURCE, SKILL, SKILLS_EXTENSION, TEMPLATE, TOOL, Kind, fitted
from agent_utilities.runtime.waiting import in_daemon_thread, is_set

logger = logging.getLogger(__name__)

_N_PROBLEMS = 100
_WITHIN = 16
"""The deepest level of a component within a snapshot's or a list's JSON."""

_ERAS = {True: "2026-07-28", False: "before 2026-07-28"}


def _taken(kind: Kind, raw: Mapping[str, Any]) -> tuple[list[tuple[str, Item, int]], list[str]]:
    """Return each valid item of a page with its key and size as JSON, and a line for each other one; use a thread."""
    items: list[tuple[str, Item, int]] = []
    problems: list[str] = []
    for item in raw[kind.field]:
        name = item.get("name", item.get(kind.key)) if isinstance(item, dict) else None
        try:
            fits = {era: fitted(kind, item, is_modern=era) for era in _ERAS}
            written = to_json(item)
            from_json(_WITHIN * b"[" + written + _WITHIN * b"]")
        except (ValueError, AttributeError, RecursionError) as error:
            # It is no object, or nested deeper than can be written, or read.
            why = f"it is {type(item).__name__}, no object" if isinstance(error, AttributeError) else error
            problems.append(f"{kind.name} {name!r} is left out: {why}"[:300])
            continue
        wrong = {era: fit.problem for era, fit in fits.items() if fit.problem}
        whom = "" if len(wrong) > 1 else f" for clients of {_ERAS[next(iter(wrong))]}" if wrong else ""
        what = "is left out" if any(fit.item is None for fit in fits.values()) else "is mended"
        problems += [f"{kind.name} {name!r} {what}{whom}: {next(iter(wrong.values()))}"[:300]] if wrong else []
        if any(fit.item is not None for fit in fits.values()):
            items.append((item[kind.key], item, len(written)))
    return items, problems


async def take_snapshot(
    live: UpstreamSession, config: UpstreamConfig, policy: Policy, before: Snapshot | None
) -> Snapshot:
    """Return a snapshot of an upstream; lists that it announces no capability for are not requested.

    A list that fails, other than the tools', does not affect the others: some servers need a database to list their
    resources, but not for their tools.

    Raises:
        TimeoutError: listing its tools takes too long.
        MCPError: it answers with an error, or the connection has ended.
        ValidationError: its answer is no list.
    """
    has = live.server_capabilities or mcp_types.ServerCapabilities()
    listing = _Taking(live, policy, config.list_timeout_s)
    tools = await listing.all(TOOL) if has.tools else ()
    if live.is_modern:
        await learn_tools(live, tools)
    others: dict[str, tuple[Any, ...]] = {}
    of_resources = (("resources", RESOURCE, has.resources), ("templates", TEMPLATE, has.resources))
    of_skills = ("skills", SKILL, SKILLS_EXTENSION in (has.extensions or {}))
    for name, kind, is_there in (("prompts", PROMPT, has.prompts), *of_resources, of_skills):
        others[name] = await listing.of(kind, getattr(before, name, ())) if is_there else ()
    problems = listing.problems
    if not (has.tools or has.prompts or has.resources):
        problems.append("it announces no capability for tools, prompts or resources, and is asked for none")
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


class _Taking:
    """Takes the lists of one upstream, within limits for each kind."""

    def __init__(self, live: UpstreamSession, policy: Policy, timeout_s: float) -> None:
        self._live, self._policy, self._timeout_s = live, policy, timeout_s
        self.problems: list[str] = []
        self.n_absent = 0
        """Of a gateway, the number of its own servers that are not in its lists yet."""

    async def of(self, kind: Kind, before: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return all components of a kind; where that fails the ones before, with a line in `problems`."""
        try:
            return await self.all(kind)
        except TimeoutError:
            why = f"that took over {self._timeout_s:g} s"
        except ValidationError as error:
            why = f"it answers with what is none, {error.error_count()} errors"
        except MCPError as error:
            trouble = http_trouble(error)
            if isinstance(error, EndedError) or (trouble is not None and not trouble.is_reached):
                raise
            if error.code == mcp_types.METHOD_NOT_FOUND:  # many servers with resources don't know templates
                return ()
            why = f"it answers with an error: {error.message}"
        self.problems.append(f"{kind.name}s could not be listed, {why}"[:300])
        return before

    async def all(self, kind: Kind) -> tuple[Any, ...]:
        """Return all components of a kind, in the upstream's order; of duplicate names the first."""
        async with asyncio.timeout(self._timeout_s):
            return tuple((await self._all(kind)).values())

    async def _all(self, kind: Kind) -> dict[str, Item]:
        taken: dict[str, Item] = {}
        n_bytes, cursor, seen = 0, None, set[str]()
        for _ in range(self._policy.n_pages):
            raw = await self._live.list_page(kind.method, kind.field, cursor)
            self.n_absent = max(self.n_absent, _n_absent(raw))
            items, problems = await asyncio.to_thread(_taken, kind, raw)
            self.problems += problems
            for key, item, n_more in items:
                n_bytes += n_more
                if len(taken) >= self._policy.n_items or n_bytes > self._policy.n_bytes:
                    text = f"more {kind.name}s than the {len(taken)} that are taken: so many of one upstream, no more"
                    self.problems.append(text)
                    return taken
                if taken.setdefault(key, item) is not item:
                    self.problems.append(f"{kind.name} {key!r} is listed more than once; the first is taken")
            cursor = raw.get("nextCursor")
            if not cursor:  # or an empty one, which some servers send
                return taken
            if cursor in seen:
                self.problems.append(f"{kind.name}s: a page comes again, and what would follow it is left out")
                return taken
            seen.add(cursor)
        self.problems.append(f"{kind.name}s: over {self._policy.n_pages} pages; what follows is left out")
        return taken


def _n_absent(raw: Mapping[str, Any]) -> int:
    """Return the number of servers that a gateway's list still lacks; 0 for any other server."""
    value: Any = raw
    for key in ("_meta", "agent-utilities/selection", "absent"):
        value = value.get(key) if isinstance(value, Mapping) else None
    return len(value) if isinstance(value, list) else 0


class Listing:
    """The snapshot of one upstream, taken again when it is due, and stored.

    Args:
        snapshot: the last one; None where it was never reached.
        save: stores a snapshot; called in a thread.
    """

    def __init__(
        self,
        opener: Opener,
        snapshot: Snapshot | None,
        *,
        save: Callable[[Snapshot], None],
        on_change: Callable[[], None],
    ) -> None:
        self._opener, self.snapshot, self._save, self._on_change = opener, snapshot, save, on_change
        self.was_tried = asyncio.Event()
        """Set after each try to take it, before it is stored; its owner clears it."""
        self.changed = asyncio.Event()
        """Set where it is to be taken again, whatever its age."""
        self.trouble: UpstreamError | None = None
        """Why the last try failed; None after a success."""
        self._turn, self._began_s, self._n_empty = asyncio.Lock(), 0.0, 0
        if snapshot is not None and snapshot.n_absent > 0:
            self.changed.set()

    @property
    def due_in_s(self) -> float:
        """Seconds until it is to be taken again for its age."""
        if self.snapshot is None:
            return 0.0
        age_s, max_age_s = time.time() - self.snapshot.taken_at_s, self._opener.policy.max_age_s
        if self._lists_nothing:
            max_age_s = min(max_age_s, self._opener.policy.empty_s * 4 ** min(self._n_empty, 8))
        return max(0.0, max_age_s - age_s) if age_s >= 0 else 0.0

    def learn(self, snapshot: Snapshot) -> None:
        """Use another process's snapshot, where this one has none; it is taken again all the same."""
        if self.snapshot is None:
            self.snapshot = snapshot
            self.changed.set()
            self.was_tried.set()
            self._on_change()

    @property
    def is_of_before(self) -> bool:
        """Whether the upstream is known to speak the handshake's era alone."""
        return self.snapshot is not None and self.snapshot.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS

    @property
    def _lists_nothing(self) -> bool:
        """Whether it has no tools, or nothing of the other kinds that it announces."""
        shot = self.snapshot
        has = {"tools", "prompts", "resources"}.intersection(shot.capabilities if shot is not None else ())
        if shot is None or shot.tools or not has:
            return False
        return "tools" in has or not (shot.prompts or shot.resources or shot.templates or shot.skills)

    async def take(self, session: UpstreamSession, limit_s: float, empty_s: float, listed: asyncio.Event) -> None:
        """Take it again on a session, once for all concurrent requests.

        An upstream that is a gateway lists more once its own servers have answered, and ending it before would end them
        too. So it is listed again while something is absent; so is an upstream that lists nothing yet.

        Args:
            limit_s: seconds after which an incomplete list is taken as it is; `empty_s` for an empty one.
            listed: set once it was taken for the first time.

        Raises:
            UpstreamError: it could not be listed, while the connection lasted.
            MCPError: the connection has ended.
        """
        clock = asyncio.get_running_loop().time
        wanted_s = first_s = clock()
        while True:
            async with self._turn:
                if self._began_s < wanted_s:
                    self._began_s = clock()
                    self.changed.clear()
                    await self._take(session)
            listed.set()
            if self.trouble is not None:
                raise self.trouble
            lacking_s = clock() - first_s
            is_absent = self.snapshot is not None and self.snapshot.n_absent > 0
            if lacking_s >= (limit_s if is_absent else empty_s if self._lists_nothing else 0.0):
                self._n_empty = self._n_empty + 1 if self._lists_nothing else 0
                return
            await asyncio.sleep(self._opener.policy.settle_s)
            await is_set(self.changed, within_s=lacking_s)
            wanted_s = clock()

    async def _take(self, session: UpstreamSession) -> None:
        """Take it and store it; a stop waits for the disk up to a limit."""
        before = self.snapshot
        try:
            listed = await take_snapshot(session, self._opener.config, self._opener.policy, before)
        except Exception as error:
            if isinstance(error, EndedError) and str(error) == "Connection closed":  # not this answer alone
                raise
            self.trouble = self._opener.of_listing(error)
            return
        self.trouble = None
        snapshot = self.snapshot = await asyncio.to_thread(without_secrets, listed, secrets_of(self._opener.config))
        saving = asyncio.ensure_future(in_daemon_thread(partial(self._save, snapshot)))
        try:
            if before is None or await asyncio.to_thread(lambda: before.digest != snapshot.digest):
                self._on_change()
            self.was_tried.set()
            for problem in snapshot.problems if before is None or before.problems != snapshot.problems else ():
                logger.warning("upstream %r: %s", snapshot.upstream, problem)
            await asyncio.shield(saving)
        except Exception:  # a fault of a listener or of the store must not end renewals
            logger.exception("upstream %r: its snapshot could not be kept", snapshot.upstream)
        finally:
            await asyncio.wait([saving], timeout=self._opener.policy.disk_s)
