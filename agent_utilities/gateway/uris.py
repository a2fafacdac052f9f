"""URIs that upstreams refer to, as callers read them here; and links that are in no list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Set
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from cachetools import LRUCache

from agent_utilities.gateway.upstreams.names import LONGEST_URI, Namespace
from agent_utilities.gateway.upstreams.operator.lock import Key
from agent_utilities.policy.bounds import Steps

_N_CALLERS = 1_000
"""The most callers whose links are kept; the least recently used are evicted."""
_CHARACTERS = 64 << 10
"""The most characters of URIs that are kept for each caller: some six hundred links, those used last."""
_AROUND = 64
_DEPTH = 16
_OF_THE_WEB = ("http://", "https://")

_Template = Any
"""An `UpstreamTemplate`, whose module imports this one."""
Link = tuple[str, str]
"""The target of a URI here: an upstream, and its own URI."""


class Links:
    """Links that callers received and that are in no list: each caller has their own alone (law L1)."""

    def __init__(self) -> None:
        self._by_caller: LRUCache[str, LRUCache[str, Link]] = LRUCache(_N_CALLERS)

    def of(self, caller: str) -> MutableMapping[str, Link]:
        """Return a caller's links by URI here, to be added to."""
        if (known := self._by_caller.get(caller)) is None:
            known = self._by_caller[caller] = LRUCache(_CHARACTERS, getsizeof=lambda link: _AROUND + len(link[1]))
        return known

    def forget(self, caller: str) -> None:
        self._by_caller.pop(caller, None)


@dataclass
class Uris:
    """Where URIs lead.

    Args:
        resources, templates: the listed ones, by URI here.
        here: by upstream and its own URI of a listed resource, the URI here.
        named: links by URI here that listed components refer to, and that are in no list themselves.
        skills: the folders of skills, which end with their names.
    """

    resources: Mapping[str, Any] = field(default_factory=dict)
    templates: Mapping[str, _Template] = field(default_factory=dict)
    here: Mapping[Link, str] = field(default_factory=dict)
    named: dict[str, Link] = field(default_factory=dict)
    skills: Set[Link] = frozenset()

    def template(self, uri: str) -> _Template | None:
        # The one with the longest beginning: `{+all}` takes no URI of another's `note://{name}`.
        return _longest(each for each in self.templates.values() if each.matches(uri) is not None)

    def nearest_template(self, uri: str) -> _Template | None:
        """Return the template with the longest beginning of a URI that none matches: servers take more than listed."""
        best = _longest(each for each in self.templates.values() if each.begins(uri))
        return None if best is None else best.model_copy(update={"fits_all": True})

    def uri_here(self, namespace: Namespace, upstream: str, uri: str, *, links: MutableMapping[str, Link]) -> str:
        """Return the URI here for an upstream's own URI, for the owner of these links; a new one is added to them.

        Where that URI leads to another upstream it gets a prefix, as in lists. A web address stays as it is: callers
        can read it without the gateway.
        """
        link = upstream, uri
        here = self.here.get(link, uri)
        while (leads := self._leads(here, link, links)) not in (None, link):
            if uri.startswith(_OF_THE_WEB):
                return uri
            here = namespace.prefixed_uri(upstream, here)
        if leads is None and len(here) <= LONGEST_URI:
            links[here] = link
        return here

    def of_skill(
        self, namespace: Namespace, upstream: str, skill: Mapping[str, Any], *, links: MutableMapping[str, Link]
    ) -> dict[str, Any]:
        """Return a skill with the URIs of its files here; new ones are added to the links.

        The files refer to one another within their folder, so all get a prefix where one leads to another upstream.
        """
        files = () if skill["resources"] == "dynamic" else skill["resources"]
        here = {uri: uri for uri in (skill["uri"], *(file["uri"] for file in files))}
        while any(self._leads(uri, link := (upstream, own), links) not in (None, link) for own, uri in here.items()):
            here = {own: namespace.prefixed_uri(upstream, uri) for own, uri in here.items()}
        links.update({uri: (upstream, own) for own, uri in here.items() if self._listed_at(uri) is None})
        renamed = [{**file, "uri": here[file["uri"]]} for file in files]
        return {**skill, "uri": here[skill["uri"]], "resources": renamed or "dynamic"}

    def take_skills(self, reached: Mapping[str, Any]) -> Steps[dict[str, tuple[str, dict[str, Any]]]]:
        """Return the skills that are not denied, by URI here, each with its upstream; their files go into `named`."""
        here = {}
        for name, (caller, shot, denied) in reached.items():
            for skill in shot.skills:
                yield
                if Key(name, "skills", skill["uri"]) not in denied:
                    skill = self.of_skill(caller.namespace, name, skill, links=self.named)
                    here[skill["uri"]] = name, skill
        return here

    def skills_with(self, namespace: Namespace, upstream: str, uri: str) -> list[str]:
        """Return the names here of the skills that an upstream's file belongs to, the innermost first."""
        folders = accumulate(range(_DEPTH), lambda inner, _: inner.rpartition("/")[0], initial=uri)
        names = [each.rpartition("/")[2] for each in folders if (upstream, each) in self.skills]
        return [namespace.namespaced(upstream, name) for name in names]

    def _leads(self, here: str, link: Link, links: Mapping[str, Link]) -> Link | None:
        """Return where a URI here leads; None where it is free for the link."""
        leads = self._listed_at(here) or links.get(here)
        if leads is None and (made_by := self.template(here)) is not None:
            leads = made_by.caller.config.name, made_by.original(here)
            if leads != link and here != link[1]:  # a template that matches every URI takes no other upstream's
                return None
        return leads

    def _listed_at(self, uri: str) -> Link | None:
        resource = self.resources.get(uri)
        return self.named.get(uri) if resource is None else (resource.caller.config.name, resource.listed["uri"])


def _longest(templates: Iterable[_Template]) -> _Template | None:
    return max(templates, key=lambda each: len(each.beginning), default=None)


_Change = Callable[[Any], Any]


def with_uris(result: dict[str, Any], here: Callable[[str], str]) -> dict[str, Any]:
    """Return a result with each of its URIs changed, in the protocol's own fields; the same object if none changes."""

    def holder(value: Any) -> Any:
        return with_pages(_at(value, "uri", _of_text(here)), here)

    def block(value: Any) -> Any:
        match value:
            case {"type": "resource_link"}:
                return holder(value)
            case {"type": "resource"}:
                return with_pages(_at(value, "resource", holder), here)
        return with_pages(value, here)

    def blocks(value: Any) -> Any:
        return _each(value, block) if isinstance(value, list) else block(value)

    result = with_pages(_at(result, "content", blocks), here)
    result = _at(result, "messages", lambda value: _each(value, lambda each: _at(each, "content", blocks)))
    changed: dict[str, Any] = _at(result, "contents", lambda value: _each(value, holder))
    return changed


def with_pages(value: Any, here: Callable[[str], str]) -> Any:
    """Return an object with the URI of an app's page in its `_meta` changed, as of MCP Apps or OpenAI's hosts."""
    uri = _of_text(here)

    def pages(meta: Any) -> Any:
        meta = _at(meta, "ui", lambda ui: _at(ui, "resourceUri", uri))
        return _at(_at(meta, "ui/resourceUri", uri), "openai/outputTemplate", uri)

    return _at(value, "_meta", pages)


def _of_text(change: Callable[[str], str]) -> _Change:
    return lambda value: change(value) if isinstance(value, str) else value


def _at(value: Any, key: str, change: _Change) -> Any:
    """Return an object with the value of a key changed; the same object if that stays, or there is none."""
    if not isinstance(value, dict) or key not in value:
        return value
    before = value[key]
    after = change(before)
    return value if after is before else {**value, key: after}


def _each(value: Any, change: _Change) -> Any:
    if not isinstance(value, list):
        return value
    after = [change(each) for each in value]
    return after if any(one is not other for one, other in zip(after, value, strict=True)) else value
