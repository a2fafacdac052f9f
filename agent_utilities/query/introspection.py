"""Lists the server's own tools for graph and ranker, and says which of them may answer a caller's query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

from cachetools import LRUCache
from fastmcp.tools.base import Tool
from fastmcp.utilities.versions import dedupe_with_versions

from agent_utilities.catalog.document import ToolDocument, ToolServer, document
from agent_utilities.catalog.model import Catalog
from agent_utilities.query.graph.base import ToolRecord, record_of
from agent_utilities.query.resolution.answer import CallerScope, LiveTools
from agent_utilities.runtime.waiting import in_turns
from agent_utilities.seam.components import given_name, origin_of
from agent_utilities.seam.host import Host
from agent_utilities.seam.verdict import Verdict
from agent_utilities.seam.whole_catalog import WholeCatalog, introspecting
from agent_utilities.selection.model import NOTHING

_N_SEEN = 64
_UNUSED = {"input_schema", "output_schema", "icons"}


@dataclass(frozen=True, eq=False)
class Introspected:
    """The server's tools at the last introspection, whoever may use them.

    Args:
        versions: of each name, the version whose words are in graph and index.
        guarded: names of those that not everybody may use, since they, or what they come from, check it themselves.
    """

    catalog: Catalog
    versions: Mapping[str, str | None]
    guarded: frozenset[str]

    @cached_property
    def stamps(self) -> frozenset[bytes]:
        """Hashes over each of the tools: one that has changed has another."""
        return frozenset(entry.stamp for entry in self.catalog.entries)

    def names_in(self, tools: Sequence[Tool]) -> frozenset[str]:
        """Return the names of listed tools whose words are indexed; tools of another version are left out."""
        return frozenset(
            tool.name for tool in tools if tool.name in self.versions and self.versions[tool.name] == tool.version
        )


class Introspection:
    """Lists a server's tools for graph and ranker, past bounds and `auth` checks: these apply to what is shown."""

    def __init__(self, host: Host, whole: WholeCatalog, on_news: Callable[[], None]) -> None:
        self._host, self._whole = host, whole
        self._on_news = on_news
        self._last: Introspected | None = None
        self._seen: LRUCache[tuple[str, str], None] = LRUCache(_N_SEEN)

    def forget(self) -> None:
        """Forget what was introspected: the server has stopped."""
        self._last = None

    async def scope(self, bounds: Verdict) -> CallerScope | None:
        """Return the tools that may answer a query under bounds, or None before the first introspection."""
        last = self._last
        if last is None:
            return None
        refused = last.guarded
        if refused:
            with introspecting():
                refused -= last.names_in(await self._whole.admitted())
        await self._whole.judge(last.catalog, bounds)
        return caller_scope(self._whole, bounds, last.catalog, refused)

    def listed(self, catalog: Catalog) -> None:
        """Compare a caller's list with the last introspection: a provider's tools may have changed without a notice."""
        last = self._last
        if last is None or catalog.digest == last.catalog.digest:
            return
        pair = (last.catalog.digest, catalog.digest)
        if pair in self._seen:
            return
        self._seen[pair] = None
        if any(entry.stamp not in last.stamps for entry in catalog.entries):
            self._on_news()

    async def live_tools(self) -> LiveTools:
        """Return the live tools as records for the graph and documents for the ranker.

        Of several versions one that the operator permits is taken: the words of a denied one must match nothing.
        """
        with introspecting():
            tools, catalog = await self._whole.everything()
        verdict = self._host.verdict(NOTHING)
        by_name: dict[str, list[Tool]] = {}
        async for tool in in_turns(tools):
            by_name.setdefault(tool.name, []).append(tool)
        records: list[ToolRecord] = []
        documents: list[ToolDocument] = []
        versions: dict[str, str | None] = {}
        async for versions_of_one in in_turns(by_name.values()):
            tool = self._representative(versions_of_one, verdict)
            versions[tool.name] = tool.version
            definition = tool.to_mcp_tool(name=tool.name).model_dump(mode="json", by_alias=True, exclude=_UNUSED)
            origin = origin_of(tool, self._host)
            server = origin.server if origin.server.name else ToolServer(given_name(self._host))
            records.append(record_of(definition, origin.server if origin.is_upstream else None))
            read = {**definition, "inputSchema": tool.parameters}
            documents.append(document(read, server=server, own_name=origin.own_name))
        with introspecting():
            self._last = await self._introspected(tools, catalog, versions)
        return LiveTools(_digest(catalog, documents), records, documents)

    def _representative(self, versions_of_one: Sequence[Tool], verdict: Verdict) -> Tool:
        """Return the version of a tool that is indexed: the highest that the operator permits."""
        permitted = [each for each in versions_of_one if each.version is None]
        permitted += self._whole.permitted([each for each in versions_of_one if each.version is not None], verdict)
        (tool,) = dedupe_with_versions(permitted or list(versions_of_one), lambda tool: tool.name)
        return tool

    async def _introspected(
        self, tools: Sequence[Tool], catalog: Catalog, versions: Mapping[str, str | None]
    ) -> Introspected:
        """Return the introspected tools; those that a caller without a token is not listed are guarded.

        Components that come through another server don't say that they are guarded there.
        """
        guarded = frozenset(tool.name for tool in tools if tool.auth is not None)
        introspected = Introspected(catalog, versions, guarded)
        if not self._whole.is_local():
            listed = introspected.names_in(await self._whole.everybodys())
            introspected = replace(introspected, guarded=guarded | (versions.keys() - listed))
        return introspected


def caller_scope(whole: WholeCatalog, verdict: Verdict, catalog: Catalog, refused: frozenset[str]) -> CallerScope:
    """Return the tools that a verdict permits, without those whose own `auth` check refuses the caller."""

    def names() -> frozenset[str]:
        permitted = whole.permitted_names(catalog, verdict)
        return permitted - refused if refused else permitted

    return CallerScope(f"{catalog.digest}:{verdict.effective.bounds_digest}:{sorted(refused)}", names)


def _digest(catalog: Catalog, documents: Sequence[ToolDocument]) -> str:
    """Return a digest of what is ranked: of the tools, and of their servers' texts where there are any."""
    texts = dict.fromkeys((each.server, each.server_text) for each in documents if each.server_text)
    of_servers = blake2b(repr(list(texts)).encode(), digest_size=16).hexdigest() if texts else ""
    return catalog.digest + of_servers
