"""Chains of lines, each numbered and hashed with the one before; what a line says, and what shows tampering.

Each process begins a chain under an id drawn at random, so that several may write to one file. Whoever can write the
file can write a chain anew; only a `Head` that was kept elsewhere shows that.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from itertools import takewhile
from math import isfinite
from pathlib import Path
from secrets import token_hex
from typing import Any
from unicodedata import normalize

from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import open_regular

_BEGINNING = "0" * 64
"""What stands in a chain's first line for the hash of the one before."""
_LINE = re.compile(
    rb'(\{"chain":"([0-9a-f]{16})","n":(\d{1,18}),"prev":"([0-9a-f]{64})","at":"([^"]+)"[^\n]*),"hash":"([0-9a-f]{64})"\}'
)
_TAIL = re.compile(rb'.*,"hash":"[0-9a-f]{64}"\}')
_START = re.compile(rb'\{"chain":"([0-9a-f]{16})","n":(\d{1,18}),')
_HEAD = re.compile(r"([0-9a-f]{16}):(\d{1,18}):([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Head:
    """How far a chain went: the number and the hash of its last line."""

    chain: str
    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.chain}:{self.number}:{self.hash}"

    @classmethod
    def of_new_chain(cls) -> Head:
        """Return the head of a chain that has no line yet."""
        return cls(token_hex(8), -1, _BEGINNING)

    @classmethod
    def read(cls, text: str, source: str) -> Head:
        """Return the head that a text has.

        Raises:
            InputError: it is none.
        """
        if (found := _HEAD.fullmatch(text.strip())) is None:
            raise InputError("not a head", text, source, "give it as `audit head` prints it: CHAIN:NUMBER:HASH")
        return cls(found[1], int(found[2]), found[3])


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it stands in a file.

    Args:
        head: its chain, number and hash, as it says.
        before: the hash of the one before it, as it says.
        at: when, as it says.
        event: what it tells of, as it says.
        is_whole: whether its hash is that of what it says.
    """

    head: Head
    before: str
    at: str
    event: str
    is_whole: bool


def write_line(head: Head, at_s: float, fields: Mapping[str, Any]) -> tuple[bytes, Head]:
    """Return the line that goes on from a head, with its end of line, and the head that it leaves.

    Args:
        head: of the line before.
        at_s: when, in seconds since the epoch.
        fields: what it says; what JSON does not know is written as text.
    """
    at = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    whole = {"chain": head.chain, "n": head.number + 1, "prev": head.hash, "at": at, **fields}
    text = json.dumps(whole, separators=(",", ":"), default=str)[:-1].encode()
    after = Head(head.chain, head.number + 1, sha256(text).hexdigest())
    return b'%s,"hash":"%s"}\n' % (text, after.hash.encode()), after


def read_line(text: bytes) -> Line | None:
    """Return what a line says, given without its end; None where it is none of a chain's, or only a piece of one."""
    if (found := _LINE.fullmatch(text)) is None:
        return None
    said, chain, number, before, at, own = found.groups()
    head = Head(chain.decode(), int(number), own.decode())
    is_whole = sha256(said).hexdigest() == head.hash
    return Line(head, before.decode(), at.decode(errors="replace"), _event(text), is_whole)


def _event(text: bytes) -> str:
    try:
        return str(json.loads(text).get("event"))
    except (ValueError, RecursionError):  # somebody changed it, which its hash shows
        return ""


@dataclass(slots=True)
class Chain:
    """What was found of one chain.

    Args:
        n_lines: that stand in the record.
        head: of the last of them.
        has_ended: whether its process said that it ended.
        next: the number of the line that should come next.
    """

    n_lines: int = 0
    head: Head | None = None
    has_ended: bool = False
    next: int = 0


@dataclass(slots=True)
class Report:
    """What was found in a record.

    Args:
        chains: by their ids, in the order in which they begin.
        tampering: what shows that lines were changed, moved, put in or taken out, each with where.
        torn: lines in pieces, as a kill or a full disk leaves them, each with where.
    """

    chains: dict[str, Chain] = field(default_factory=dict)
    tampering: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)


def verify(files: Sequence[Path], heads: Iterable[Head] = ()) -> Report:
    """Return what is found in all files of a record.

    Found is a line that was changed, moved, put in or taken out; with a chain's head also that its end was cut off, or
    that it was written anew: without one nobody can tell.

    Args:
        files: the oldest first.
        heads: as they were kept elsewhere, of any chains; a chain may have several.

    Raises:
        OSError: a file can't be read.
    """
    report, kept = Report(), {(head.chain, head.number): head for head in heads}
    for path in files:
        with open_regular(path) as file:
            for number, text in enumerate(file, 1):
                text = text.rstrip(b"\n")
                if (line := read_line(text)) is None:
                    _take_no_line(report, text, f"{path}:{number}")
                    continue
                chain = report.chains.setdefault(line.head.chain, Chain())
                given = kept.get((line.head.chain, line.head.number), line.head)
                report.tampering += [
                    f"{path}:{number}: chain {given.chain}: {what}" for what in _add(chain, line, given)
                ]
                chain.has_ended = line.event == "closed"
    for name, number in kept:
        chain = report.chains.get(name, Chain())
        if number >= chain.next:
            what = f"{_are(chain.next, number)} cut off" if chain.next else "all of it is taken out"
            report.tampering.append(f"chain {name}: {what}, as its head shows, or it was written anew")
    return report


def _add(chain: Chain, line: Line, given: Head) -> Iterator[str]:
    """Add a line to its chain, and yield what is wrong with it, by itself and beside the head that was kept of it."""
    number = line.head.number
    chain.n_lines += 1
    if not line.is_whole:
        yield f"line {number} was changed"
    if given != line.head:
        yield f"line {number} is not that of its head: it, or what is before it, was written anew"
    if number < chain.next:
        yield f"line {number} was moved here, or put in"
        return
    if number > chain.next:
        yield f"{_are(chain.next, number - 1)} missing"
    elif chain.head is not None and chain.head.number == number - 1 and chain.head.hash != line.before:
        yield f"line {number} does not follow from line {number - 1}: that was changed, and its hash made anew"
    chain.head, chain.next = line.head, number + 1


def _take_no_line(report: Report, text: bytes, where: str) -> None:
    """Take what is only a piece of a line, or of somebody else's making."""
    start = _START.match(text)
    chain_id, number = ("", -1) if start is None else (start[1].decode(), int(start[2]))
    what = f"chain {chain_id}: line {number}" if chain_id else "a line"
    is_piece = text.startswith(b'{"chain":"'[: len(text)]) and not _TAIL.fullmatch(text)
    if is_piece or not text.strip(b"\0"):
        if text:  # a blank line is what ends a piece of which nothing is left
            report.torn.append(f"{where}: {what} is in pieces, as a kill or a full disk leaves it")
        return
    report.tampering.append(f"{where}: {what} was changed, or put in")
    if chain_id and number == (chain := report.chains.setdefault(chain_id, Chain())).next:
        chain.next += 1  # it is there, whatever it says


def _are(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"


LONGEST = 500
"""Characters of a text that are written, at most."""
ENOUGH = 2 * LONGEST + 1
"""Characters of a text that are kept until it is written: one more than are read, which shows that it was cut."""
_ARGUMENTS = 8 * LONGEST
"""Characters of a call's arguments, as JSON has them."""
_DEEPEST = 50
"""Lists and mappings in one another."""
_FEWEST_DIGITS = 9
"""Of a number that may be somebody's."""
_LEFT_OUT = "…"
"""Stands for what was too long, or looked like a secret."""
_WORD_ENDS = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")

WithoutSecrets = Callable[[str, int], str]
"""Returns a text without what looks like a secret, of so many characters of it."""


def cut(value: Any, room: list[int] | None = None, deepest: int = _DEEPEST) -> Any:
    """Return a copy of arguments that nobody changes meanwhile, as much as has room: each text whole or not at all.

    What is left out is not looked at: the event loop does this, whatever callers send. So are NaN and numbers of
    hundreds of digits, which not every reader of JSON takes.
    """
    room = [_ARGUMENTS] if room is None else room
    if isinstance(value, Mapping | list) and deepest and room[0] > 3:
        room[0] -= 3
        if isinstance(value, list):
            return [cut(part, room, deepest - 1) for part in takewhile(lambda _: room[0] >= 0, value)]
        left = takewhile(lambda _: room[0] >= 0, value.items())
        return {cut(str(key), room): cut(part, room, deepest - 1) for key, part in left}
    is_short = isinstance(value, str) and len(value) <= room[0]
    is_number = (isinstance(value, int) and value.bit_length() <= 64) or (isinstance(value, float) and isfinite(value))
    if not (is_short or is_number or value is None):
        room[0] -= len(value) if isinstance(value, str) else 9
        return _LEFT_OUT
    # A text is written as it is, or without its secrets in another form, in which one letter may be eighteen.
    forms = {value, normalize("NFKC", value)} if is_short and not value.isascii() else {value}
    room[0] -= max(len(json.dumps(form)) for form in forms) + 1
    return value if room[0] >= 0 else _LEFT_OUT


async def n_bytes_of(result: Any) -> int:
    """Return the bytes of all names and values in a result, as the record tells and quotas count them.

    The event loop has its turn after every few thousand: in a thread they would hold the interpreter up as long.
    """
    n_bytes, n_parts, parts = 0, 0, [result]
    while parts:
        part = parts.pop()
        if isinstance(part, str):
            n_bytes += len(part) if part.isascii() else len(part.encode(errors="replace"))
        elif isinstance(part, dict):
            parts += part
            parts += part.values()
        elif isinstance(part, list):
            parts += part
        else:
            n_bytes += len(str(part))
        n_parts += 1
        if n_parts % 4096 == 0:
            await asyncio.sleep(0)
    return n_bytes


def line(
    event: str, said: Mapping[str, Any], own: Mapping[str, str], without_secrets: WithoutSecrets
) -> dict[str, Any]:
    """Return what a line says of an event, without what callers may have written that looks like a secret.

    Args:
        event: its name.
        said: what is known of it; of a trace its id as a number.
        own: texts of this server's own, which are written as they are.
        without_secrets: returns a text without what looks like one.
    """
    fields = {"event": event, **said, "trace": f"{said['trace']:032x}" if said.get("trace") else None}
    verdict = said.get("verdict")
    for name in ("path", "reason", "arguments", *(["tool"] if verdict != "permitted" else [])):
        if name in fields:
            fields[name] = _redacted(fields[name], without_secrets)
    if verdict == "denied":  # a tool's own name, which is read as unknown ones are: its caller may wait (law L1)
        fields["tool"] = said["tool"]
    return {name: value for name, value in {**fields, **own}.items() if value not in ("", None)}


def _redacted(value: Any, without_secrets: WithoutSecrets) -> Any:
    """Return a value without what looks like a secret, by itself or by its name; what was left out shows."""
    if isinstance(value, Mapping):
        return {
            _redacted(name, without_secrets): _redacted(part, without_secrets)
            if without_secrets(f"{_WORD_ENDS.sub('-', name)}=x", LONGEST)
            else _LEFT_OUT
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_redacted(part, without_secrets) for part in value]
    text = str(value)
    if text in ("", _LEFT_OUT) or (len(text) < _FEWEST_DIGITS and not isinstance(value, str)):
        return value
    kept = without_secrets(text, ENOUGH - 1)
    return value if kept == " ".join(normalize("NFKC", text).split()) else f"{kept} {_LEFT_OUT}".strip()
