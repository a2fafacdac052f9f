"""Names and URIs of upstreams' components at the gateway: valid for every host, and stable."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType

from agent_utilities.policy.entry_names import EVERY_NAME

LONGEST_URI = 8_192
"""The longest URI that is matched against templates or kept, in characters."""
MAX_LENGTH = 64
"""The longest name that the strictest hosts take, in characters."""

_MAX_PREFIX = 40
_HASH_LENGTH = 12
_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_PLAIN = re.compile(r"(?!.*_[0-9a-f]{12}\Z)[A-Za-z0-9_-]+\Z")
_OF_THE_GATEWAY = frozenset((*EVERY_NAME, "capability", "show_context"))
"""Names of the gateway's own tools."""
_VALUE = re.compile(r"\{[^{}]*\}")


class Namespace:
    """The prefixes of a gateway's upstreams: no two of them can list a component of one name.

    A name here depends on the configured upstreams alone, not on what they list or when they are reached: a name in an
    operator's rule keeps its meaning.

    A name that two upstreams could have (`a_b_c`, of `a` and of `a_b`) belongs to the longer prefix; the other gets a
    hash. So does a name that looks as if it had one: nobody can take the place of a hashed name.

    Args:
        own: prefixes that the operator wrote, by upstream. With an empty one names stay as they are, but for those that
            are another's by its prefix, or the gateway's; all such upstreams share one space, see `names_here`.
    """

    def __init__(self, upstreams: Iterable[str], own: Mapping[str, str | None] = MappingProxyType({})) -> None:
        self._own = {name: own.get(name) for name in sorted(set(upstreams))}
        self.prefixes: Mapping[str, str] = _prefixes(self._own)
        """By upstream, the prefix of its names, without the underscore."""
        prefixes = self.prefixes.values()
        self._longer = {
            each: tuple(f"{x}_" for x in prefixes if x != each and x.startswith(head(each))) for each in prefixes
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and self.prefixes == other.prefixes

    def namespaced(self, upstream: str, name: str) -> str:
        """Return the name of an upstream's tool or prompt: `git_git_status`.

        One that would be longer than 64 characters, or have others than `A-Z a-z 0-9 _ -`, becomes its readable
        beginning and a hash of the original.
        """
        prefix = self.prefixes[upstream]
        plain = head(prefix) + name
        is_others = plain.startswith(self._longer[prefix]) or (not prefix and plain in _OF_THE_GATEWAY)
        if name and _is_plain(plain) and not is_others:
            return plain
        return _hashed(plain, (upstream, name))

    def prefixed_uri(self, upstream: str, uri: str) -> str:
        """Return a URI or template with an upstream's prefix behind its scheme: `file://git/a`, or else `git+urn:a`."""
        prefix = self.prefixes[upstream] or _ODD.sub("_", upstream)
        scheme, separator, rest = uri.partition("://")
        return f"{scheme}://{prefix}/{rest}" if separator else f"{prefix}+{uri}"

    def notices(self) -> tuple[str, ...]:
        """Return a line for each upstream whose prefix is neither its name nor what its operator wrote."""
        return tuple(
            f"upstream {name!r}: its tools bear the prefix {prefix!r}, since its "
            + ("name" if self._own[name] is None else f"prefix {self._own[name]!r}")
            + " has characters that hosts don't take in a tool's name, or is too long, or is as good as another's"
            for name, prefix in self.prefixes.items()
            if prefix not in (self._own[name], name)
        )


def head(prefix: str) -> str:
    """Return the beginning of names with a prefix."""
    return f"{prefix}_" if prefix else ""


Here = tuple[dict[tuple[str, str], str], list[str]]
"""By upstream and a component's own name, its name here; and a line for each that is changed or left out."""


def names_here(namespace: Namespace, listed: Mapping[str, Sequence[str]]) -> Here:
    """Return the names of one kind of component of all upstreams.

    A name that two upstreams without a prefix list is left out of both: a later upstream can't take over a name that a
    caller or a rule knows, and a deny of that name can't be evaded by another name.
    """
    here: dict[tuple[str, str], str] = {}
    holders: dict[str, list[str]] = {}
    notices = []
    for upstream, names in listed.items():
        for original in names:
            name = here[upstream, original] = namespace.namespaced(upstream, original)
            holders.setdefault(name, []).append(upstream)
            if name != head(namespace.prefixes[upstream]) + original:
                why = "hosts don't take that name, or it is as good as another's"
                notices.append(f"{name!r} is what upstream {upstream!r} calls {original!r}: {why}")
    for name, several in holders.items():
        if len(several) > 1:
            what = "left out; write a `prefix` for one of them" if len(set(several)) > 1 else "taken once"
            notices.append(f"{name!r} is listed by the upstreams {', '.join(map(repr, several))}, and {what}")
    here = {key: name for key, name in here.items() if len(set(holders[name])) == 1}
    return here, notices


def uris_here(namespace: Namespace, listed: Mapping[str, Sequence[str]]) -> Here:
    """Return the URIs of one kind of component of all upstreams: their own, since results of calls link to them.

    Where two upstreams list one URI, the first in the order of the config keeps it; the other's gets its prefix behind
    the scheme, as with FastMCP's namespaces.
    """
    here: dict[tuple[str, str], str] = {}
    holders: dict[str, str] = {}
    notices = []
    for upstream, originals in listed.items():
        for original in dict.fromkeys(originals):
            uri, line = original, f"upstream {upstream!r}: the resource {original!r} is"
            if (holder := holders.get(_shape(uri), upstream)) != upstream:
                uri = namespace.prefixed_uri(upstream, original)
                notices.append(f"{line} listed as {uri!r}, since upstream {holder!r} has that URI too")
            if (holder := holders.setdefault(_shape(uri), upstream)) != upstream:
                notices.append(f"{line} left out, the URI {uri!r} is taken by upstream {holder!r}")
                continue
            here[upstream, original] = uri
    return here, notices


def _prefixes(own: Mapping[str, str | None]) -> dict[str, str]:
    """Return each upstream's prefix: its own, which is nobody else's, or its name without odd characters, or a hash."""
    wished = {name: _ODD.sub("_", name) for name, prefix in own.items() if prefix is None}
    n_wished, n_own = Counter(wished.values()), Counter(own.values())
    prefixes = {}
    for name, prefix in own.items():
        is_own = prefix == "" or (n_own[prefix] == 1 and prefix not in n_wished)
        if prefix is None:
            prefix = wished[name]
            is_own = prefix == name or n_wished[prefix] == 1
        is_plain = own[name] == "" or _is_plain(prefix, _MAX_PREFIX)
        prefixes[name] = prefix if is_own and is_plain else _hashed(name, (name,), _MAX_PREFIX)
    return prefixes


def _is_plain(name: str, max_length: int = MAX_LENGTH) -> bool:
    """Whether a name is valid as it is; one that looks as if it had a hash is not."""
    return len(name) <= max_length and _PLAIN.match(name) is not None


def _hashed(name: str, original: tuple[str, ...], max_length: int = MAX_LENGTH) -> str:
    """Return a name's readable beginning and a hash of the original: stable across processes and versions."""
    digest = blake2b(digest_size=_HASH_LENGTH // 2)
    for part in original:
        digest.update(len(part).to_bytes(4) + part.encode("utf-8", "surrogatepass"))
    head = _ODD.sub("_", name)[: max_length - _HASH_LENGTH - 1].rstrip("_-")
    return f"{head}_{digest.hexdigest()}"


def _shape(uri: str) -> str:
    """Return a URI template without the names of its values, the same for templates of the same URIs."""
    return _VALUE.sub("{}", uri)


def original_uri(uri: str, here: str, original: str) -> str:
    """Return the upstream's own URI for a URI of a template here."""
    if here == original:
        return uri
    scheme, separator, _ = original.partition("://")
    beginning = f"{scheme}://" if separator else ""
    n_prefix = len(here) - len(original)
    return beginning + uri[len(beginning) + n_prefix :]
