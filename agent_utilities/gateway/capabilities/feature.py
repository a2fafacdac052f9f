"""Capabilities: bundles of servers that callers switch on by name, words, a skill that they read, or the tool for it.

Only skills of the operator's own server count; they name capabilities in the frontmatter of their `SKILL.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fastmcp.tools.base import Tool

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.gateway.capabilities.answers import AS_JUDGED, CAPABILITY, CapabilityAnswers, capability_tool
from agent_utilities.gateway.capabilities.caller import (
    KEY,
    CapabilityMetrics,
    SessionCapabilities,
    caller_capabilities,
    named_by,
    with_news,
)
from agent_utilities.gateway.capabilities.servers import Offer
from agent_utilities.gateway.capabilities.switching import Switching
from agent_utilities.gateway.feature import ConfigTaken, Upstreams
from agent_utilities.policy.curation import Preferences
from agent_utilities.policy.decision import Decision
from agent_utilities.query.feature import Query
from agent_utilities.seam.events import Event, SessionEnded, UpstreamsRenewed
from agent_utilities.seam.feature import Feature, OwnTool
from agent_utilities.seam.host import Host
from agent_utilities.seam.request import Call, Request, RequestOver
from agent_utilities.selection.merge import Narrowing
from agent_utilities.selection.model import NOTHING, NameSet, Selection

if TYPE_CHECKING:
    from fastmcp.utilities.components import FastMCPComponent
    from prometheus_client import CollectorRegistry

    from agent_utilities.seam.host import Host

MAX_CHARACTERS = 32 * 1024
"""The longest frontmatter that is looked into."""
MAX_NAMES = 16
"""How many names count."""
_FRONTMATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"""^(?:capabilities|"capabilities"|'capabilities')[ \t]*:(.*(?:\n(?:[ \t-].*|\r?$))*)""", re.M)
"""The key at the beginning of a line, and the lines under it: those further in, those of a list, and empty ones."""
_COMMENT = re.compile(r"(?:^|\s)#.*")
_SEPARATORS = re.compile(r"""[\s,\[\]"']+""")
_NAME = re.compile(r"\w[\w.+-]{0,99}")
_SKILLS = {
    "fastmcp.skills.provider": ("SkillFileResource",),  # of 4.2
    "fastmcp.server.providers.skills.skill_provider": ("SkillResource", "SkillFileResource", "SkillFileTemplate"),
}
"""Files of skills, where a provider of them was imported."""


def capabilities_of(text: str) -> tuple[str, ...]:
    """Return the names under `capabilities` in a text's frontmatter, in its order, each once; () where there are none.

    They may be one text, with spaces or commas between them, or a list. That entry alone is looked at, and taken apart
    into words: what is wrong elsewhere, as a colon in a description often is, costs a skill nothing.
    """
    frontmatter = _FRONTMATTER.match(text[:MAX_CHARACTERS])
    entry = _ENTRY.search(frontmatter[1]) if frontmatter else None
    words = _SEPARATORS.split(_COMMENT.sub("", entry[1])) if entry else ()
    return tuple(dict.fromkeys(word for word in words if _NAME.fullmatch(word)))[:MAX_NAMES]


def skills_read(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the capabilities that a result of `resources/read` or `prompts/get` names in its frontmatter, each once.

    Of resources those count whose URI ends in `SKILL.md`, or whose type is Markdown; of a prompt its first message.
    """
    said = [message["content"] for message in result.get("messages", ())[:1]]
    resources = [*result.get("contents", ()), *(each["resource"] for each in said if "resource" in each)]
    texts = [each.get("text", "") for each in (*filter(_is_skill, resources), *said)]
    return tuple(dict.fromkeys(name for text in texts for name in capabilities_of(text)))


def _is_skill(content: Mapping[str, Any]) -> bool:
    kind = (content.get("mimeType") or "").partition(";")[0].strip().lower()
    return kind == "text/markdown" or str(content["uri"]).rpartition("/")[2] == "SKILL.md"


async def skill_capabilities(
    server: Host, method: str, params: Mapping[str, Any], result: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the capabilities that the result of a request calls for; () where it is not of the server's own."""
    if method not in ("resources/read", "prompts/get") or not (names := skills_read(result)):
        return ()
    if method == "prompts/get":
        component = await server.component("prompt", str(params.get("name")))
    else:
        component = await server.component("resource", str(params.get("uri")))
    return names if is_own(component) else ()


def is_own(component: FastMCPComponent | None) -> bool:
    """Whether the text of a component is written by whoever runs this server: a file of theirs, or their code.

    Not so for what an upstream, a proxied, mounted or unknown server gives, nor where a caller's words choose what is
    fetched: a page somewhere could call for capabilities else; nor where middleware answered, and there is None.
    """
    from fastmcp.prompts.function_prompt import FunctionPrompt
    from fastmcp.resources.function_resource import FunctionResource
    from fastmcp.resources.types import FileResource, TextResource

    skills = (getattr(sys.modules.get(module), name, None) for module, names in _SKILLS.items() for name in names)
    own = (FunctionPrompt, FunctionResource, FileResource, TextResource)
    return isinstance(component, (*filter(None, skills), *own))


class Capabilities(Feature):
    """Serves the capabilities of one gateway."""

    name, keeps = KEY, SessionCapabilities
    needs = (Upstreams, Query)
    after = ("upstreams",)
    before = ("tool_search",)
    limit_s = None  # to route words and to begin servers has limits of its own

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._count: Callable[[Event], None] | None = None

    def attach(self, host: Host) -> None:
        super().attach(host)
        self.switching = Switching(host, self._offer, self.needed(Upstreams), self.needed(Query))
        self._answers = CapabilityAnswers(self.switching)

    async def run(self) -> None:
        await self.switching.run()

    # -- what a request may use --------------------------------------------------------------------------------------

    def bounds_for(self, caller: Selection) -> Narrowing:
        """Return that of what capabilities bring along only what is on for everybody, or named, is there."""
        return self.switching.narrowing(named_by(caller))

    async def narrow(self, request: Request) -> Narrowing:
        """Return what is active for a request, once what its words call for is switched on."""
        request.values[KEY] = own = await self.switching.for_request(request)
        return self.switching.narrowing(own.active)

    async def prefer(self, request: Request) -> Preferences:
        """Return preferences by which what is active, and what words call for, is not deferred."""
        own, preferences = caller_capabilities(request), request.verdict.preferences
        if own.called_for is not None:
            preferences = replace(preferences, called_for=own.called_for)
        pins = self.switching.pins((*own.fixed, *own.active))
        if pins and preferences.deferral.over is not None:
            preferences = replace(preferences, pins=preferences.pins | NameSet(pins))
        return preferences

    async def tools_at_head(self, request: Request, decision: Decision) -> Sequence[Tool]:
        tool = self._tool(request)
        return [] if tool is None else [tool]

    async def tool(self, name: str, request: Request) -> Tool | None:
        return self._tool(request) if name == CAPABILITY else None

    def _tool(self, request: Request) -> OwnTool | None:
        usable = caller_capabilities(request).usable
        if not usable or not request.verdict.bounds.permits_entry_tool(AS_JUDGED, by_caller=False):
            return None
        answer = partial(self._answers.answer, request=request)
        return capability_tool(self.switching.offer.capabilities, usable, answer)

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Return the result with what is on: what a call uses counts as used, and a skill that was read switches on."""
        if call is None:
            return await self._read(request, result)
        own = caller_capabilities(request)
        if call.ok:
            catalog = (await self.host.decide("tool", request.verdict)).catalog
            places = catalog.places_by_own_name.get(call.name, ())
            brings = frozenset[str]().union(*(catalog.entries[i].capabilities or () for i in places))
            own = own.used(request, brings)
        return with_news(result, own.news(request))

    async def _read(self, request: Request, result: dict[str, Any]) -> dict[str, Any]:
        own = caller_capabilities(request)
        names = await skill_capabilities(self.host, request.method, request.params, result)
        after = self.switching.switched_on(before := own.now(request), own, names)
        if after == before:
            return result
        own = await self.switching.changed(request, own, after, "skill")
        if own.added:
            await self.switching.tell_changed(request, own)
        return with_news(result, own.news(request))

    def _over(self, request: Request) -> None:
        """Notify a session's client where a request that does not list tools has changed its list."""
        own = caller_capabilities(request)
        if request.client is not None and request.session is not None and request.method != "tools/list":
            if own.added or own.removed:
                request.client.tell_later()

    def notify(self, event: Event) -> None:
        """Take note of upstreams and configurations that changed, and count what is switched."""
        match event:
            case UpstreamsRenewed():
                self.switching.forget_seen()
            case ConfigTaken():
                self.switching.offer_anew()
            case RequestOver(request):
                self._over(request)
            case SessionEnded(session_id):  # what it alone had on stops with it
                self.switching.holders.hold(session_id, ())
                self.host.start(self.switching.settle())
            case _ if self._count is not None:
                self._count(event)

    # -- summary and health --------------------------------------------------------------------------------------------

    async def summary(self, request: Request, kind: ComponentKind, decision: Decision) -> Mapping[str, Any]:
        """Return which capabilities are on, the value by which a later request has the same, and where words led."""
        return {KEY: caller_capabilities(request).summary()} if kind == "tool" else {}

    def counts(self) -> Mapping[str, int]:
        """Return how many capabilities there are, are on for somebody, and how many sessions have any on.

        Those that the operator denies to everybody do not count: a number would tell of them.
        """
        usable, holders = self.switching.usable(NOTHING), self.switching.holders
        return {
            "known": len(usable),
            "unavailable": len(usable & self.switching.offer.servers.unavailable.keys()),
            "on": len(holders.names()),
            "sessions": holders.n_sessions,
        }

    def health(self) -> Mapping[str, Any]:
        """Return how many there are, and can't be on: anybody may read it, and what others have on is for metrics."""
        counts = self.counts()
        return {KEY: {name: counts[name] for name in ("known", "unavailable")}}

    def start_lines(self) -> Sequence[str]:
        counts, offer = self.counts(), self.switching.offer
        parts = [f"{counts['known']} capabilities"]
        if offer.fixed:
            parts.append(f"{', '.join(offer.fixed)} on for everybody")
        if n_unavailable := counts["unavailable"]:
            parts.append(f"{n_unavailable} can't be switched on")
        if not offer.routes:
            parts.append("words switch none on")
        return [", ".join(parts)]

    def register_metrics(self, registry: CollectorRegistry) -> None:
        self._count = CapabilityMetrics(registry, self.counts).count
