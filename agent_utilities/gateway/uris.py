"""URIs that upstreams name in what they send, as callers may read them here; and links that no list has."""

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
"""How many callers' links are remembered; of more, those who read and were given none for longest are forgotten."""
_CHARACTERS = 64 << 10
"""How many characters of URIs are remembered of each caller: some six hundred links, those used last."""
_AROUND = 64
_DEPTH = 16
_OF_THE_WEB = ("http://", "https://")

_Template = Any
"""An `UpstreamTemplate`: its module stands on this one."""
Link = tuple[str, str]
"""What a URI here leads to: an upstream, and its own URI."""


class Links:
    """The links that callers were given and that no list has: each caller knows their own alone (law L1)."""

    def __init__(self) -> None:
        self._by_caller: LRUCache[str, LRUCache[str, Link]] = LRUCache(_N_CALLERS)

    def of(self, caller: str) -> MutableMapping[str, Link]:
        """Return what a caller was given, by URI here; what is put in it is remembered."""
        if (known := self._by_caller.get(caller)) is None:
            known = self._by_caller[caller] = LRUCache(_CHARACTERS, getsizeof=lambda link: _AROUND + len(link[1]))
        return known

    def forget(self, caller: str) -> None:
        """Forget what a caller was given."""
        self._by_caller.pop(caller, None)


@dataclass
class Uris:
    """What URIs lead to.

    Args:
        resources, templates: those that are listed, by URI here.
        here: by upstream and what it calls a resource that it lists, its URI here.
        named: by URI here, what is named by what is listed, and is in no list itself.
        skills: the folders of skills, which end with their names.
    """

    resources: Mapping[str, Any] = field(default_factory=dict)
    templates: Mapping[str, _Template] = field(default_factory=dict)
    here: Mapping[Link, str] = field(default_factory=dict)
    named: dict[str, Link] = field(default_factory=dict)
    skills: Set[Link] = frozenset()

    def template(self, uri: str) -> _Template | None:
        """Return the template that makes a URI."""
        # The one that says most of what it makes: `{+all}` takes no URI that `note://{name}` of another makes.
        return _longest(each for each in self.templates.values() if each.matches(uri) is not None)

    def nearest_template(self, uri: str) -> _Template | None:
        """Return the template that takes a URI which none makes: it begins so, and servers take more than they say."""
        best = _longest(each for each in self.templates.values() if each.begins(uri))
        return None if best is None else best.model_copy(update={"fits_all": True})

    def given(self, namespace: Namespace, upstream: str, uri: str, *, links: MutableMapping[str, Link]) -> str:
        """Return the URI by which who has these links reads here what an upstream calls so; a new one is put in them.

        Where that URI leads to another upstream it gets a prefix, as in lists. One of the web is the same for
        everybody, and who may read it there needs no gateway for that.
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
        """Return a skill with the URIs of its files here; new ones are put in the links.

        They refer to one another within their folder. So all bear a prefix where one of them leads to another upstream.
        """
        files = () if skill["resources"] == "dynamic" else skill["resources"]
        here = {uri: uri for uri in (skill["uri"], *(file["uri"] for file in files))}
        while any(self._leads(uri, link := (upstream, own), links) not in (None, link) for own, uri in here.items()):
            here = {own: namespace.prefixed_uri(upstream, uri) for own, uri in here.items()}
        links.update({uri: (upstream, own) for own, uri in here.items() if self._listed_at(uri) is None})
        renamed = [{**file, "uri": here[file["uri"]]} for file in files]
        return {**skill, "uri": here[skill["uri"]], "resources": renamed or "dynamic"}

    def take_skills(self, reached: Mapping[str, Any]) -> Steps[dict[str, tuple[str, dict[str, Any]]]]:
        """Return what skills are not denied, by URI here, each with its upstream, and have their files named."""
        here = {}
        for name, (caller, shot, denied) in reached.items():
            for skill in shot.skills:
                yield
                if Key(name, "skills", skill["uri"]) not in denied:
                    skill = self.of_skill(caller.namespace, name, skill, links=self.named)
                    here[skill["uri"]] = name, skill
        return here

    def skills_with(self, namespace: Namespace, upstream: str, uri: str) -> list[str]:
        """Return the names here of the skills that have a file of an upstream's, the innermost first."""
        folders = accumulate(range(_DEPTH), lambda inner, _: inner.rpartition("/")[0], initial=uri)
        names = [each.rpartition("/")[2] for each in folders if (upstream, each) in self.skills]
        return [namespace.namespaced(upstream, name) for name in names]

    def _leads(self, here: str, link: Link, links: Mapping[str, Link]) -> Link | None:
        """Return what a URI here leads to, of those that a link may have; None where it is free for it."""
        leads = self._listed_at(here) or links.get(here)
        if leads is None and (made_by := self.template(here)) is not None:
            leads = made_by.caller.config.name, made_by.original(here)
            if leads != link and here != link[1]:  # a template of every URI takes none of another's
                return None
        return leads

    def _listed_at(self, uri: str) -> Link | None:
        found = self.resources.get(uri)
        return self.named.get(uri) if found is None else (found.caller.config.name, found.listed["uri"])


def _longest(templates: Iterable[_Template]) -> _Template | None:
    return max(templates, key=lambda each: len(each.beginning), default=None)


_Change = Callable[[Any], Any]


def with_uris(result: dict[str, Any], here: Callable[[str], str]) -> dict[str, Any]:
    """Return a result with each URI in a place where the protocol has one changed; itself where all stay."""

    def holder(given: Any) -> Any:
        return with_pages(_at(given, "uri", _of_text(here)), here)

    def block(given: Any) -> Any:
        match given:
            case {"type": "resource_link"}:
                return holder(given)
            case {"type": "resource"}:
                return with_pages(_at(given, "resource", holder), here)
        return with_pages(given, here)

    def blocks(given: Any) -> Any:
        return _each(given, block) if isinstance(given, list) else block(given)

    result = with_pages(_at(result, "content", blocks), here)
    result = _at(result, "messages", lambda given: _each(given, lambda each: _at(each, "content", blocks)))
    changed: dict[str, Any] = _at(result, "contents", lambda given: _each(given, holder))
    return changed


def with_pages(given: Any, here: Callable[[str], str]) -> Any:
    """Return what names an app's page in its `_meta`, as MCP Apps or OpenAI's hosts have it, with its URI here."""
    uri = _of_text(here)

    def pages(meta: Any) -> Any:
        meta = _at(meta, "ui", lambda ui: _at(ui, "resourceUri", uri))
        return _at(_at(meta, "ui/resourceUri", uri), "openai/outputTemplate", uri)

    return _at(given, "_meta", pages)


def _of_text(change: Callable[[str], str]) -> _Change:
    return lambda value: change(value) if isinstance(value, str) else value


def _at(given: Any, key: str, change: _Change) -> Any:
    """Return an object with the value of a key changed; itself where that is no other, or there is none."""
    if not isinstance(given, dict) or key not in given:
        return given
    before = given[key]
    after = change(before)
    return given if after is before else {**given, key: after}


def _each(given: Any, change: _Change) -> Any:
    if not isinstance(given, list):
        return given
    after = [change(each) for each in given]
    return after if any(one is not other for one, other in zip(after, given, strict=True)) else given
