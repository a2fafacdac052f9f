"""What an operator has accepted of what upstreams tell models, kept in a file, and what has changed since.

A model reads a tool's title, description, schemas and annotations, and a server's instructions. A server can change
them after its operator has looked at them. With a lock, what is not as it was accepted is withheld: what changed, and
what is new too, since a server can add a tool as well as change one.

What stands in no list, or changes by nature, is not locked: prompts' texts and resources' contents, the list of
resources, icons and `_meta`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeAlias

from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import write_whole
from agent_utilities.selection.model import nearest

if TYPE_CHECKING:
    from pydantic import BaseModel

    from agent_utilities.upstream.snapshot import Snapshot


Kind = Literal["tools", "prompts", "resources", "templates", "instructions"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "templates", "instructions")
"""What is locked."""
Definition: TypeAlias = Mapping[str, Any]
"""What a model reads of a component, as JSON; keys that the upstream leaves out are not there."""

_READ: Mapping[str, set[str]] = {
    "tools": {"name", "title", "description", "input_schema", "output_schema", "annotations"},
    "prompts": {"name", "title", "description", "arguments"},
    "templates": {"name", "title", "description", "uri_template", "mime_type", "annotations"},
}
"""The fields that a model reads, by kind."""


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


Lock: TypeAlias = Mapping[Key, Accepted]
"""What was accepted of each component."""


@dataclass(frozen=True)
class Change:
    """Something that is not as it was accepted.

    Args:
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
    return accepted


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
        gone = (key for key in lock if key.upstream == snapshot.upstream and key not in now)
        found.extend(Change(key, lock[key].definition, None) for key in gone)
    return found


def change_of(lock: Lock, key: Key, definition: Definition) -> Change | None:
    """Return how a definition is not as it was accepted; None where it is."""
    before = lock.get(key)
    if before is None or before.sha256 != sha256_of(definition):
        return Change(key, None if before is None else before.definition, definition)
    return None


def accept(lock: Lock, names: Collection[str], snapshots: Sequence[Snapshot]) -> Lock:
    """Return the lock with changes accepted as the upstreams list them now.

    Raises:
        LockError: nothing of a name has changed.
    """
    pending = changes(lock, snapshots)
    accepted = dict(lock)
    for change in (change for name in names for change in named(name, pending)):
        if change.after is None:
            accepted.pop(change.key, None)
        else:
            accepted[change.key] = Accepted(sha256_of(change.after), change.after)
    return accepted


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
            told = component.model_dump(mode="json", by_alias=True, exclude_none=True, include=_READ[kind])
            yield Key(snapshot.upstream, kind, told["uriTemplate"] if kind == "templates" else told["name"]), told
    if snapshot.instructions:
        yield Key(snapshot.upstream, "instructions", ""), {"instructions": snapshot.instructions}


FORMAT = "agent-utilities lock 1"


def lock_path(config: Path) -> Path:
    """Return where the lock of a config file stands: `.mcp.lock.json` beside `.mcp.json`."""
    return config.with_name(f"{re.sub(r'[.]jsonc?$', '', config.name)}.lock.json")


def origin(path: Path, key: Key) -> str:
    """Return where in a lock's file a key stands, as explanations name it."""
    return f"{path.name}: {key}"


def read_lock(path: Path) -> Lock | None:
    """Return the lock in a file; None where there is no file, so that nothing is withheld.

    Raises:
        LockError: the file can't be read, or a value of it can't be taken. Nothing must be served then: what was
            accepted is not known.
    """
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        _refuse(f"can't read the lock, {(error.strerror or 'refused').lower()}", "", path, "")
    except (ValueError, RecursionError) as error:
        _refuse(f"the lock is no JSON ({error})", "", path, "")
    form = _object(content, path, "").get("format")
    if form != FORMAT:
        _refuse("the lock is of another version", form, path, "format")
    accepted: dict[Key, Accepted] = {}
    for upstream, kinds in _object(content.get("upstreams"), path, "upstreams").items():
        where = f"upstreams.{upstream}"
        for kind, entries in _object(kinds, path, where).items():
            if kind not in KINDS:
                _refuse(f"a lock has none of these; it has {', '.join(KINDS)}", kind, path, where)
            for name, entry in _object(entries, path, f"{where}.{kind}").items():
                key = Key(upstream, kind, name)
                accepted[key] = _accepted(entry, path, f"{where}.{kind}.{name}")
    return accepted


def write_lock(path: Path, lock: Lock) -> None:
    """Put a lock in place of what a file held: a reader finds the old or the new one, whole.

    Raises:
        LockError: it can't be written; the file is as it was.
    """
    upstreams: dict[str, dict[str, dict[str, Any]]] = {}
    for key in sorted(lock, key=lambda key: (key.upstream, KINDS.index(key.kind), key.name)):
        entry = lock[key]
        kinds = upstreams.setdefault(key.upstream, {})
        kinds.setdefault(key.kind, {})[key.name] = {"sha256": entry.sha256, "definition": entry.definition}
    # ASCII alone: characters that can't be seen are spelled out, for whoever reviews the file.
    text = json.dumps({"format": FORMAT, "upstreams": upstreams}, indent=2) + "\n"
    try:
        target = Path(os.path.realpath(path))
        mode = target.stat().st_mode & 0o777 if target.exists() else 0o644  # it is reviewed and shared, no secret
        write_whole(target, text.encode(), mode=mode)
    except OSError as error:
        _refuse(f"can't write the lock, {(error.strerror or 'refused').lower()}", "", path, "")


def _accepted(entry: Any, path: Path, where: str) -> Accepted:
    content = _object(entry, path, where)
    hashed, definition = content.get("sha256"), _object(content.get("definition"), path, f"{where}.definition")
    if not isinstance(hashed, str) or not re.fullmatch(r"[0-9a-f]{64}", hashed):
        _refuse("not a hash", hashed, path, f"{where}.sha256")
    return Accepted(hashed, definition)


def _object(value: Any, path: Path, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        _refuse("not a JSON object", value, path, where)
    return value


def _refuse(what: str, value: object, path: Path, where: str) -> NoReturn:
    hint = "bring back the file as `agent-utilities gateway lock` wrote it, or delete it and run that again"
    raise LockError(what, value, f"{path}: {where}" if where else str(path), hint)
