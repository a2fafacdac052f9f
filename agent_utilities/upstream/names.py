"""The names and URIs that upstreams' components bear at the gateway: every host can take them, and they stay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

MAX_LENGTH = 64
"""The longest name that the strictest hosts take, in characters."""

_MAX_PREFIX = 40
_HASH_LENGTH = 12
_ODD = re.compile(r"[^A-Za-z0-9_-]+")
_PLAIN = re.compile(r"(?!.*_[0-9a-f]{12}\Z)[A-Za-z0-9_-]+\Z")
_VALUE = re.compile(r"\{[^{}]*\}")


class Namespace:
    """The prefixes of a gateway's upstreams: no two of them can list a component of one name.

    What a name becomes follows from the configured upstreams alone, not from what any of them lists, nor from the order
    in which they are reached: a name that a caller or an operator's rule knows keeps its meaning.

    A name that two upstreams could give (`a_b_c`, by `a` and by `a_b`) belongs to the longer prefix; the other gets a
    hash. So does a name that looks as if it had one, such that nobody can take the place of a hashed name.
    """

    def __init__(self, upstreams: Iterable[str]) -> None:
        self.prefixes: Mapping[str, str] = _prefixes(sorted(set(upstreams)))
        """By upstream, the prefix of its names, without the underscore."""
        prefixes = self.prefixes.values()
        self._longer = {each: tuple(f"{x}_" for x in prefixes if x.startswith(f"{each}_")) for each in prefixes}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Namespace) and self.prefixes == other.prefixes

    def namespaced(self, upstream: str, name: str) -> str:
        """Return the name of an upstream's tool or prompt: `git_git_status`.

        One that would be longer than 64 characters, or have others than `A-Z a-z 0-9 _ -`, is given by its readable
        beginning and a hash of the original.
        """
        prefix = self.prefixes[upstream]
        plain = f"{prefix}_{name}"
        if name and _is_plain(plain) and not plain.startswith(self._longer[prefix]):
            return plain
        return _hashed(plain, (upstream, name))

    def notices(self) -> tuple[str, ...]:
        """Return a line for each upstream whose prefix is not its name."""
        return tuple(
            f"upstream {name!r}: its tools bear the prefix {prefix!r}, since its name has characters that hosts don't"
            " take in a tool's name, or is too long, or is as good as another's"
            for name, prefix in self.prefixes.items()
            if name != prefix
        )


Here = tuple[dict[tuple[str, str], str], list[str]]
"""By upstream and what it calls a component, what that is called here; and a line for each changed or left out."""


def names_here(namespace: Namespace, listed: Mapping[str, Sequence[str]]) -> Here:
    """Return the names of one kind of component of all upstreams."""
    here: dict[tuple[str, str], str] = {}
    holders: dict[str, tuple[str, str]] = {}
    notices = []
    for upstream, names in listed.items():
        for original in names:
            name = namespace.namespaced(upstream, original)
            if name in holders:
                holder, held = holders[name]
                notices.append(
                    f"upstream {upstream!r}: {original!r} is left out, the name {name!r} is taken"
                    f" by {held!r} of {holder!r}"
                )
                continue
            holders[name] = upstream, original
            here[upstream, original] = name
            if name != f"{namespace.prefixes[upstream]}_{original}":
                notices.append(f"{name!r} is what upstream {upstream!r} calls {original!r}: hosts don't take that name")
    return here, notices


def uris_here(namespace: Namespace, listed: Mapping[str, Sequence[str]]) -> Here:
    """Return the URIs of one kind of component of all upstreams: their own, since results of calls link to them.

    Where two upstreams list one URI, the first in the order of the config keeps it; the other's bears its prefix behind
    the scheme, as with FastMCP's namespaces.
    """
    here: dict[tuple[str, str], str] = {}
    holders: dict[str, str] = {}
    notices = []
    for upstream, originals in listed.items():
        for original in dict.fromkeys(originals):
            uri, told = original, f"upstream {upstream!r}: the resource {original!r} is"
            if (holder := holders.get(_shape(uri), upstream)) != upstream:
                uri = _with_prefix(original, namespace.prefixes[upstream])
                notices.append(f"{told} listed as {uri!r}, since upstream {holder!r} has that URI too")
            if (holder := holders.setdefault(_shape(uri), upstream)) != upstream:
                notices.append(f"{told} left out, the URI {uri!r} is taken by upstream {holder!r}")
                continue
            here[upstream, original] = uri
    return here, notices


def _prefixes(upstreams: Sequence[str]) -> dict[str, str]:
    """Return each upstream's prefix: its name, else its name without odd characters, else that and a hash."""
    wished = {name: _ODD.sub("_", name) for name in upstreams}
    n_wished = Counter(wished.values())
    prefixes = {}
    for name, prefix in wished.items():
        is_its_own = prefix == name or n_wished[prefix] == 1
        prefixes[name] = (
            prefix if is_its_own and _is_plain(prefix, _MAX_PREFIX) else _hashed(name, (name,), _MAX_PREFIX)
        )
    return prefixes


def _is_plain(name: str, max_length: int = MAX_LENGTH) -> bool:
    """Whether a name can be taken as it is; one that looks as if it had a hash can't."""
    return len(name) <= max_length and _PLAIN.match(name) is not None


def _hashed(name: str, original: tuple[str, ...], max_length: int = MAX_LENGTH) -> str:
    """Return a name's readable beginning and a hash of the original: the same in every process, for ever."""
    digest = blake2b(digest_size=_HASH_LENGTH // 2)
    for part in original:
        digest.update(len(part).to_bytes(4) + part.encode("utf-8", "surrogatepass"))
    head = _ODD.sub("_", name)[: max_length - _HASH_LENGTH - 1].rstrip("_-")
    return f"{head}_{digest.hexdigest()}"


def _shape(uri: str) -> str:
    """Return what templates of the same URIs have in common, whatever they call their values."""
    return _VALUE.sub("{}", uri)


def _with_prefix(uri: str, prefix: str) -> str:
    """Return a URI or template with a prefix behind its scheme: `file://git/a`; `git+urn:a` where it has no `//`."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}://{prefix}/{rest}" if separator else f"{prefix}+{uri}"


def original_uri(uri: str, here: str, original: str) -> str:
    """Return the upstream's own URI of one that a template makes here."""
    if here == original:
        return uri
    scheme, separator, _ = original.partition("://")
    beginning = f"{scheme}://" if separator else ""
    n_prefix = len(here) - len(original)
    return beginning + uri[len(beginning) + n_prefix :]
