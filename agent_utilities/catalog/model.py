"""The catalog: the facts of each component that policy judges, and a digest that changes with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal

from agent_utilities.selection.model import fold

ComponentKind = Literal["tool", "prompt", "resource", "template"]
KINDS: tuple[ComponentKind, ...] = ("tool", "prompt", "resource", "template")


@dataclass(frozen=True, slots=True)
class Entry:
    """One component of a catalog.

    Args:
        name: the name that callers see; for resources and templates the URI.
        identifiers: every folded name that a selection may use: name, and URI where there is one.
        tags: folded.
        read_only: whether `readOnlyHint` is true; a prompt or a resource always is read-only.
        destructive: whether `destructiveHint` is not false; it counts where `read_only` is false.
        content: text that identifies the component's description and schemas, for the digest.
        version: an entry without one answers for every version.
        is_guarded: whether it has an `auth` check of its own, so that its name is not public.
        denied_by: where the operator denies it in the configuration that it came with, such as
            `.mcp.json: mcpServers.git.disabledTools`; None where they do not.
        capabilities: it is listed while one of these is active; None for an entry that belongs to none.
        header_schema: the input schema of a tool some of whose arguments are repeated in HTTP headers, else None.
    """

    kind: ComponentKind
    name: str
    identifiers: tuple[str, ...]
    tags: frozenset[str]
    read_only: bool
    destructive: bool = True
    content: str = ""
    version: str | None = None
    is_guarded: bool = False
    denied_by: str | None = None
    capabilities: frozenset[str] | None = None
    header_schema: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    stamp: bytes = field(init=False, repr=False, compare=False)
    """A hash over the entry, 16 bytes, independent of hash seeds."""

    def __post_init__(self) -> None:
        judged = (sorted(self.tags), self.read_only, self.version, self.content, self.is_guarded)
        parts = (self.kind, self.name, *judged, *((self.denied_by,) if self.denied_by is not None else ()))
        if not (self.destructive or self.read_only):
            parts = (*parts, "not destructive")
        if self.capabilities is not None:
            parts = (*parts, "capabilities", *sorted(self.capabilities))
        object.__setattr__(self, "stamp", blake2b(repr(parts).encode(), digest_size=16).digest())


def entry(
    kind: ComponentKind,
    name: str,
    *,
    tags: Iterable[str] = (),
    read_only: bool | None = None,
    aliases: Iterable[str] = (),
    **others: Any,
) -> Entry:
    """Return an entry with its names and tags folded.

    Args:
        read_only: the `readOnlyHint` of a tool; None counts as false for tools, and as true for all others.
        aliases: further names that a selection may use, such as a resource's short name.
        others: further fields of `Entry`.
    """
    return Entry(
        kind,
        name,
        identifiers=tuple(dict.fromkeys([fold(name), *map(fold, aliases)])),
        tags=frozenset(map(fold, tags)),
        read_only=kind != "tool" if read_only is None else read_only,
        **others,
    )


@dataclass(frozen=True, eq=False)
class Catalog:
    """The components of one kind that a server has, in the server's order; its digest is its identity."""

    entries: tuple[Entry, ...] = field(default=())

    @cached_property
    def digest(self) -> str:
        """A hash over every entry, 32 hex digits, stable across processes."""
        return blake2b(b"".join(entry.stamp for entry in self.entries), digest_size=16).hexdigest()

    @cached_property
    def places_by_name(self) -> Mapping[str, Sequence[int]]:
        """The indexes of the entries with each folded name."""
        return self._places(lambda entry: entry.identifiers)

    @cached_property
    def places_by_own_name(self) -> Mapping[str, Sequence[int]]:
        """The indexes of the entries with each name as callers see it."""
        return self._places(lambda entry: (entry.name,))

    @cached_property
    def places_by_tag(self) -> Mapping[str, Sequence[int]]:
        """The indexes of the entries with each folded tag."""
        return self._places(lambda entry: entry.tags)

    def _places(self, keys_of: Callable[[Entry], Iterable[str]]) -> Mapping[str, Sequence[int]]:
        places: dict[str, list[int]] = {}
        for i, entry in enumerate(self.entries):
            for key in keys_of(entry):
                places.setdefault(key, []).append(i)
        return places

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """All identifiers of all entries."""
        return frozenset(name for entry in self.entries for name in entry.identifiers)

    @cached_property
    def of_capabilities(self) -> tuple[int, ...]:
        """The indexes of the entries that are listed only while a capability is active."""
        return tuple(i for i, entry in enumerate(self.entries) if entry.capabilities is not None)

    @cached_property
    def with_header_parameters(self) -> tuple[Entry, ...]:
        """The tools some of whose arguments are repeated in HTTP headers."""
        return tuple(entry for entry in self.entries if entry.header_schema is not None)

    def __len__(self) -> int:
        return len(self.entries)
