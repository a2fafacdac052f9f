"""The URIs that upstreams' resources bear at the gateway: their own, where no other upstream has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_VALUE = re.compile(r"\{[^{}]*\}")


class Uris:
    """The URIs of one kind of component of all upstreams: their own, since results of calls link to them.

    Where two upstreams list one URI, the first in the order of the config keeps it; the other's bears its prefix behind
    the scheme, as with FastMCP's namespaces.

    Args:
        prefixes: by upstream, the prefix of its names.
        listed: by upstream, in the order of the config, the URIs or templates that it lists.
    """

    def __init__(self, prefixes: Mapping[str, str], listed: Mapping[str, Sequence[str]]) -> None:
        self._by_original: dict[tuple[str, str], str] = {}
        notices: list[str] = []
        holders: dict[str, str] = {}
        taken: set[str] = set()
        for upstream, originals in listed.items():
            for original in dict.fromkeys(originals):
                uri = original
                if (holder := holders.get(_shape(original))) is not None and holder != upstream:
                    uri = with_prefix(original, prefixes[upstream])
                    notices.append(
                        f"upstream {upstream!r}: the resource {original!r} is listed as {uri!r}, since upstream"
                        f" {holder!r} has that URI too"
                    )
                if uri in taken or holders.get(_shape(uri), upstream) != upstream:
                    notices.append(
                        f"upstream {upstream!r}: the resource {original!r} is left out, the URI {uri!r} is taken by"
                        f" upstream {holders[_shape(uri)]!r}"
                    )
                    continue
                holders[_shape(uri)] = upstream
                taken.add(uri)
                self._by_original[upstream, original] = uri
        self.notices: tuple[str, ...] = tuple(notices)
        """A line for each URI that was changed or left out."""

    def of(self, upstream: str, original: str) -> str | None:
        """Return the URI of a resource here, or None where it is left out."""
        return self._by_original.get((upstream, original))


def _shape(uri: str) -> str:
    """Return what templates of the same URIs have in common, whatever they call their values."""
    return _VALUE.sub("{}", uri)


def with_prefix(uri: str, prefix: str) -> str:
    """Return a URI or template with a prefix behind its scheme: `file://git/a`; `git+urn:a` where it has no `//`."""
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}://{prefix}/{rest}" if separator else f"{prefix}+{uri}"


def original_uri(uri: str, here: str, original: str) -> str:
    """Return the upstream's own URI of one that a template makes here.

    Args:
        uri: made by the template here.
        here: the template here: the original, or one with a prefix.
        original: the upstream's template.
    """
    if here == original:
        return uri
    scheme, separator, _ = original.partition("://")
    beginning = f"{scheme}://" if separator else ""
    n_prefix = len(here) - len(original)
    return beginning + uri[len(beginning) + n_prefix :]
