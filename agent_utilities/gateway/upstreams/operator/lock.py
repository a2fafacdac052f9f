"""The lock: a file of the definitions that an operator has accepted, and the changes since.

A model reads a tool's title, description, schemas and annotations, and a server's instructions. A server can change
them after its operator has reviewed them. With a lock, changed and new definitions are withheld until the operator
accepts them.

Not locked is what is in no list, or changes by nature: prompts' texts and resources' contents, the list of resources,
icons and `_meta`.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_utilities.errors import InputError, said_of
from agent_utilities.runtime.process_io import open_regular, write_whole
from agent_utilities.runtime.shown import shown
from agent_utilities.selection.model import nearest

if TYPE_CHECKING:
    from agent_utilities.gateway.upstreams.snapshot import Snapshot

Locked = Literal["tools", "prompts", "templates", "skills", "instructions"]
"""The locked kinds, in the order of the file."""
Kind = Locked | Literal["resources"]
Definition: TypeAlias = Mapping[str, Any]
"""The fields of a component that a model reads, as JSON."""

_READ: Mapping[Kind, set[str]] = {
    "tools": {"name", "title", "description", "inputSchema", "outputSchema", "annotations"},
    "prompts": {"name", "title", "description", "arguments"},
    "templates": {"name", "title", "description", "uriTemplate", "mimeType", "annotations"},
    "skills": {"uri", "frontmatter"},
}
"""The fields that a model reads, by kind."""
_NAMED: Mapping[Kind, str] = {"templates": "uriTemplate", "skills": "uri"}
_SCHEMAS = ("inputSchema", "outputSchema")


class Key(NamedTuple):
    """A component of an upstream; instructions have an empty name."""

    upstream: str
    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.upstream}/{self.kind}" + (f"/{self.name}" if self.name else "")

    @property
    def short_forms(self) -> tuple[str, str]:
        """Short forms of it, valid where they are unambiguous."""
        return f"{self.upstream}/{self.name}", f"{self.upstream}_{self.name}"


class Accepted(BaseModel):
    """A definition that was accepted: its hash, which counts, and its text, for a diff."""

    model_config = ConfigDict(frozen=True)

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    definition: dict[str, Any]


Lock: TypeAlias = Mapping[Key, Accepted]
"""The accepted definition of each component."""


@dataclass(frozen=True)
class Change:
    """A difference from what was accepted.

    Args:
        before: the accepted definition; None for a new one.
        after: the definition now; None for one that is no longer listed.
    """

    key: Key
    before: Definition | None
    after: Definition | None

    @property
    def what(self) -> Literal["new", "changed", "removed"]:
        if self.before is None:
            return "new"
        return "removed" if self.after is None else "changed"


def lock_of(snapshots: Iterable[Snapshot]) -> Lock:
    """Return the lock that accepts all that upstreams list now."""
    return accept({}, changes({}, snapshots))


def changes(lock: Lock, snapshots: Iterable[Snapshot]) -> list[Change]:
    """Return the differences from what was accepted, in the upstreams' order, removed components last.

    Upstreams without a snapshot here have no changes.
    """
    pending: list[Change] = []
    for snapshot in snapshots:
        listed = list(definitions(snapshot))
        pending += [change for each in listed if (change := change_of(lock, *each)) is not None]
        now = {key for key, _ in listed}
        gone = (key for key in lock if key.upstream == snapshot.upstream and key not in now)
        pending += [Change(key, lock[key].definition, None) for key in gone]
    return pending


def change_of(lock: Lock, key: Key, definition: Definition) -> Change | None:
    """Return how a definition differs from the accepted one; None where it does not."""
    before = lock.get(key)
    if before is None or before.sha256 != sha256_of(definition):
        return Change(key, None if before is None else before.definition, definition)
    return None


def accept(lock: Lock, changes: Iterable[Change]) -> Lock:
    """Return the lock with changes accepted."""
    accepted = dict(lock)
    for change in changes:
        if change.after is None:
            accepted.pop(change.key, None)
        else:
            accepted[change.key] = Accepted(sha256=sha256_of(change.after), definition=dict(change.after))
    return accepted


def named(name: str, pending: Sequence[Change]) -> list[Change]:
    """Return the changes that a name means, for `--accept`: one change, or all of one upstream's.

    A server chooses its tools' names, so a name never means several things at once: first the full form of a change,
    then an upstream's name, then a short form of only one change.

    Raises:
        InputError: nothing of the name has changed, or its short form means several things.
    """
    exact = [change for change in pending if name == str(change.key)]
    if matches := exact or [change for change in pending if name == change.key.upstream]:
        return matches
    short = [change for change in pending if name in change.key.short_forms]
    if len(short) > 1:
        hint = f"name one of {', '.join(str(change.key) for change in short[:5])}"
        raise InputError("several changes have that name", name, "option --accept", hint)
    if not short:
        near = nearest(name, {form for change in pending for form in (str(change.key), *change.key.short_forms)})
        hint = f"did you mean {near!r}?" if near else "run it without --accept to see what has changed"
        raise InputError("nothing of that name has changed", name, "option --accept", hint)
    return short


def sha256_of(definition: Definition) -> str:
    """Return the hash of a definition, 64 hex digits, independent of the order of its keys."""
    text = json.dumps(definition, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def definitions(snapshot: Snapshot) -> Iterator[tuple[Key, Definition]]:
    """Yield the definition of each locked component, in the upstream's order."""
    for kind, fields in _READ.items():
        for component in getattr(snapshot, kind):
            read = {key: value for key, value in component.items() if key in fields and value is not None}
            definition = {key: value if key in _SCHEMAS else _without_nulls(value) for key, value in read.items()}
            yield Key(snapshot.upstream, kind, definition[_NAMED.get(kind, "name")]), definition
    if snapshot.instructions:
        yield Key(snapshot.upstream, "instructions", ""), {"instructions": snapshot.instructions}


def _without_nulls(value: Any) -> Any:
    """Return annotations, or arguments, without nulls, which mean the same as no value."""
    if isinstance(value, list):
        return list(map(_without_nulls, value))
    return {key: inner for key, inner in value.items() if inner is not None} if isinstance(value, dict) else value


def lock_path(config: Path) -> Path:
    """Return the path of a config file's lock: `.mcp.lock.json` beside `.mcp.json`."""
    return config.with_name(f"{re.sub(r'[.]jsonc?$', '', config.name)}.lock.json")


class _File(BaseModel):
    format: Literal["agent-utilities lock 1"] = "agent-utilities lock 1"
    upstreams: dict[str, dict[Locked, dict[str, Accepted]]]


def read_lock(path: Path) -> Lock | None:
    """Return the lock in a file; None where there is no file, so that nothing is withheld.

    Raises:
        InputError: the file can't be read, or is invalid. Nothing must be served then, as nothing counts as accepted.
    """
    try:
        with open_regular(path) as file:
            upstreams = _File.model_validate(json.loads(file.read())).upstreams
    except FileNotFoundError:
        return None
    except OSError as error:
        _refuse(f"can't read the lock, {(error.strerror or 'refused').lower()}", "", path)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"] if part != "[key]")
        _refuse(f"the lock can't be taken, {said_of(wrong['msg'])}", wrong["input"], path, where)
    except (ValueError, RecursionError) as error:
        _refuse(f"the lock is no JSON ({error})", "", path)
    return {
        Key(upstream, kind, name): accepted
        for upstream, kinds in upstreams.items()
        for kind, entries in kinds.items()
        for name, accepted in entries.items()
    }


def write_lock(path: Path, lock: Lock) -> None:
    """Replace a lock's file atomically; `InputError` where it can't be written, which leaves the file as it was."""
    upstreams: dict[str, dict[str, dict[str, Any]]] = {}
    for key in sorted(lock, key=lambda key: (key.upstream, get_args(Locked).index(key.kind), key.name)):
        upstreams.setdefault(key.upstream, {}).setdefault(key.kind, {})[key.name] = lock[key].model_dump()
    # ASCII alone: invisible characters are escaped, for whoever reviews the file.
    text = json.dumps(_File.model_validate({"upstreams": upstreams}).model_dump(), indent=2) + "\n"
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644  # it is reviewed and shared, no secret
        write_whole(path, text.encode(), mode=mode)
    except OSError as error:
        _refuse(f"can't write the lock, {(error.strerror or 'refused').lower()}", "", path)


def _refuse(what: str, value: object, path: Path, where: str = "") -> NoReturn:
    hint = "bring back the file as `agent-utilities gateway lock` wrote it, or delete it and run that again"
    raise InputError(what, value, f"{path}: {where}" if where else str(path), hint)


# -- changes for a person, on a terminal or the page: no character can hide or act -------------------------------------

MAX_LINES = 2_000
_ENDS = re.compile(r"(?<=[.!?;]) +(?=\S)")


def change_text(change: Change) -> str:
    """Return a change as lines: its kind and component, then a diff of the definition."""
    return "\n".join([shown(f"{change.what}: {change.key}", limit=None), *(f"  {line}" for line in diff_lines(change))])


def diff_lines(change: Change, *, compares: bool = True) -> list[str]:
    """Return the diff of a definition by sentence and by line of JSON, each line with ` `, `-` or `+` before it.

    Args:
        compares: whether common lines are searched for, which a hostile server can make take half a second; else all
            old lines come first, then all new ones.
    """
    before, after = (_lines(definition) for definition in (change.before, change.after))
    old, new = before[:MAX_LINES], after[:MAX_LINES]
    if compares:
        diff = list(unified_diff(old, new, n=2, lineterm=""))
        shown_from = 2 if change.what == "changed" else 3  # a whole definition needs no `...` before it
        lines = ["..." if line.startswith("@@") else f"{line[0]} {line[1:]}" for line in diff[shown_from:]]
    else:
        lines = [*(f"- {line}" for line in old), *(f"+ {line}" for line in new)]
    n_more = max(len(before), len(after)) - MAX_LINES
    if n_more > 0:
        lines.append(f"NOT SHOWN: {n_more} more lines; read them before you accept this")
    if foreign := _foreign(change):
        lines.append(f"not ASCII, and not there before: {foreign}")
    return lines


def _lines(definition: Definition | None) -> list[str]:
    """Return a definition's lines: texts by sentence, schemas by line of JSON with keys in order."""
    lines: list[str] = []
    for name, value in (definition or {}).items():
        if isinstance(value, str):
            sentences = [part for line in value.split("\n") for part in _ENDS.split(line)]
            lines += [f"{name}: {sentences[0]}", *(f"    {sentence}" for sentence in sentences[1:])]
        else:
            text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
            lines += f"{name}: {text}".split("\n")
    return [shown(line, limit=None) for line in lines]


def _foreign(change: Change) -> str:
    """Return the names of characters that are new and not ASCII: some look like a letter that was there."""
    texts = (json.dumps(definition or {}, ensure_ascii=False) for definition in (change.before, change.after))
    before, after = (Counter(character for character in text if character > "\x7f") for text in texts)
    new = sorted((after - before) if change.before is not None else after)
    named = [f"U+{ord(character):04X} {unicodedata.name(character, 'unnamed')}" for character in new[:10]]
    return ", ".join(named) + (f" and {len(new) - 10} more" if len(new) > 10 else "")
