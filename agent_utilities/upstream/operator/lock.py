"""What an operator has agreed to of what upstreams tell models, and what has changed since.

A model reads a tool's title, description, schemas and annotations, and a server's instructions. A server can change
them after its operator has looked at them. With a lock, what is not as it was accepted is withheld: what changed, and
what is new too, since a server can add a tool as well as change one.

What stands in no list, or changes by nature, is not locked: prompts' texts and resources' contents, the list of
resources, icons and `_meta`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from agent_utilities.errors import InputError
from agent_utilities.selection.nearest import nearest

if TYPE_CHECKING:
    from pydantic import BaseModel

    from agent_utilities.upstream.snapshot import Snapshot

Kind = Literal["tools", "prompts", "resources", "templates", "instructions"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "templates", "instructions")
"""What is locked."""
Definition: TypeAlias = Mapping[str, Any]
"""What a model reads of a component, as JSON; keys that the upstream leaves out are not there."""

_READ: Mapping[str, Mapping[str, str]] = {
    "tools": {
        "name": "name",
        "title": "title",
        "description": "description",
        "inputSchema": "input_schema",
        "outputSchema": "output_schema",
        "annotations": "annotations",
    },
    "prompts": {"name": "name", "title": "title", "description": "description", "arguments": "arguments"},
    "templates": {
        "name": "name",
        "title": "title",
        "description": "description",
        "uriTemplate": "uri_template",
        "mimeType": "mime_type",
        "annotations": "annotations",
    },
}
"""What a model reads, by kind: the key on the wire and the field."""


class LockError(InputError):
    """A lock that can't be read, or something to accept that is not there."""


class Key(NamedTuple):
    """Which component of which upstream; of instructions the name is empty."""

    upstream: str
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.upstream}/{self.kind}" + (f"/{self.name}" if self.name else "")


@dataclass(frozen=True)
class Accepted:
    """A definition that was accepted: its hash, which is what counts, and its text, for a diff."""

    sha256: str
    definition: Definition


@dataclass(frozen=True)
class Lock:
    """What was accepted of each component."""

    accepted: Mapping[Key, Accepted] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """Something that is not as it was accepted.

    Args:
        key: what.
        before: as it was accepted; None for what is new.
        after: as the upstream lists it now; None for what it no longer lists.
    """

    key: Key
    before: Definition | None
    after: Definition | None

    @property
    def what(self) -> Literal["new", "changed", "removed"]:
        """What happened, in a word."""
        if self.before is None:
            return "new"
        return "removed" if self.after is None else "changed"


def lock_of(snapshots: Iterable[Snapshot]) -> Lock:
    """Return the lock that accepts all that upstreams list now."""
    accepted: dict[Key, Accepted] = {}
    for snapshot in snapshots:
        for key, definition in definitions(snapshot):
            accepted.setdefault(key, Accepted(sha256_of(definition), definition))
    return Lock(accepted)


def changes(lock: Lock, snapshots: Iterable[Snapshot]) -> list[Change]:
    """Return what is not as it was accepted, in the upstreams' order, what they no longer list last.

    Upstreams that no snapshot is given of are passed over: what was accepted of them stands.
    """
    found: list[Change] = []
    for snapshot in snapshots:
        now: set[Key] = set()
        for key, definition in definitions(snapshot):
            now.add(key)
            if (change := change_of(lock, key, definition)) is not None:
                found.append(change)
        gone = (key for key in lock.accepted if key.upstream == snapshot.upstream and key not in now)
        found.extend(Change(key, lock.accepted[key].definition, None) for key in gone)
    return found


def change_of(lock: Lock, key: Key, definition: Definition) -> Change | None:
    """Return how a definition is not as it was accepted; None where it is."""
    before = lock.accepted.get(key)
    if before is None or before.sha256 != sha256_of(definition):
        return Change(key, None if before is None else before.definition, definition)
    return None


def accept(lock: Lock, names: Collection[str], snapshots: Sequence[Snapshot]) -> Lock:
    """Return the lock with changes accepted as the upstreams list them now.

    Args:
        lock: what was accepted before.
        names: of what is accepted: `git/tools/git_status` as changes tell it, `git/git_status`, or `git` for all of an
            upstream's.
        snapshots: what the upstreams list now.

    Raises:
        LockError: nothing of a name has changed.
    """
    pending = changes(lock, snapshots)
    accepted = dict(lock.accepted)
    for change in (change for name in names for change in named(name, pending)):
        if change.after is None:
            accepted.pop(change.key, None)
        else:
            accepted[change.key] = Accepted(sha256_of(change.after), change.after)
    return Lock(accepted)


def named(name: str, pending: Sequence[Change]) -> list[Change]:
    """Return the changes that a name means, for `--accept`: one change, or all of one upstream's.

    A server chooses its tools' names, so a name is never taken for several things at once: as changes tell it first,
    then an upstream's, then a short form that only one change has.

    Raises:
        LockError: nothing of the name has changed, or its short form means several things.
    """
    exact = [change for change in pending if name == str(change.key)]
    if found := exact or [change for change in pending if name == change.key.upstream]:
        return found
    short = [change for change in pending if name in _short_forms(change.key)]
    if len(short) > 1:
        hint = f"name one of {', '.join(str(change.key) for change in short[:5])}"
        raise LockError("several changes have that name", name, "option --accept", hint)
    if not short:
        choices = {spelling for change in pending for spelling in (str(change.key), *_short_forms(change.key))}
        near = nearest(name, choices | {change.key.upstream for change in pending})
        hint = f"did you mean {near!r}?" if near else "run it without --accept to see what has changed"
        raise LockError("nothing of that name has changed", name, "option --accept", hint)
    return short


def sha256_of(definition: Definition) -> str:
    """Return the hash of a definition, 64 hex digits: the same for whatever order its keys are told in."""
    text = json.dumps(definition, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _short_forms(key: Key) -> tuple[str, ...]:
    return (f"{key.upstream}/{key.name}", f"{key.upstream}_{key.name}") if key.name else ()


def definitions(snapshot: Snapshot) -> Iterator[tuple[Key, Definition]]:
    """Yield what a model reads of each component that is locked, in the upstream's order."""
    kinds: tuple[tuple[Kind, Sequence[BaseModel]], ...] = (
        ("tools", snapshot.tools),
        ("prompts", snapshot.prompts),
        ("templates", snapshot.templates),
    )
    for kind, components in kinds:
        for component in components:
            told = {key: _plain(getattr(component, name)) for key, name in _READ[kind].items()}
            name = told["uriTemplate"] if kind == "templates" else told["name"]
            yield Key(snapshot.upstream, kind, name), {key: value for key, value in told.items() if value is not None}
    if snapshot.instructions:
        yield Key(snapshot.upstream, "instructions", ""), {"instructions": snapshot.instructions}


def _plain(value: Any) -> Any:
    """Return JSON for a field: schemas and texts are it."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json", by_alias=True, exclude_none=True) if hasattr(value, "model_dump") else value
