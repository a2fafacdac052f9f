"""Hash chains: lines that are numbered and hashed with the line before, and the verification that detects tampering.

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
    """The number and the hash of a chain's last line."""

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
        """Parse a head.

        Raises:
            InputError: the text is not one.
        """
        if (match := _HEAD.fullmatch(text.strip())) is None:
            raise InputError("not a head", text, source, "give it as `audit head` prints it: CHAIN:NUMBER:HASH")
        return cls(match[1], int(match[2]), match[3])


@dataclass(frozen=True, slots=True)
class Line:
    """A parsed line; all but `is_whole` is what the line claims.

    Args:
        head: its chain, number and hash.
        before: the hash of the line before.
        at: its time.
        event: the name of its event.
        is_whole: whether its hash fits its content.
    """

    head: Head
    before: str
    at: str
    event: str
    is_whole: bool


def write_line(head: Head, at_s: float, fields: Mapping[str, Any]) -> tuple[bytes, Head]:
    """Return the next line after a head, with its end of line, and the head after it.

    Args:
        head: of the line before.
        at_s: when, in seconds since the epoch.
        fields: its content; values that JSON does not know are written as text.
    """
    at = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    whole = {"chain": head.chain, "n": head.number + 1, "prev": head.hash, "at": at, **fields}
    text = json.dumps(whole, separators=(",", ":"), default=str)[:-1].encode()
    after = Head(head.chain, head.number + 1, sha256(text).hexdigest())
    return b'%s,"hash":"%s"}\n' % (text, after.hash.encode()), after


def read_line(text: bytes) -> Line | None:
    """Parse a line, without its end; return None where it is not a chain's, or only a piece of one."""
    if (match := _LINE.fullmatch(text)) is None:
        return None
    said, chain, number, before, at, own = match.groups()
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
    """The state of one chain in a record.

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
    """The findings of a verification.

    Args:
        chains: by their ids, in the order in which they begin.
        tampering: what shows that lines were changed, moved, put in or taken out, each with where.
        torn: lines in pieces, as a kill or a full disk leaves them, each with where.
    """

    chains: dict[str, Chain] = field(default_factory=dict)
    tampering: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)


def verify(files: Sequence[Path], heads: Iterable[Head] = ()) -> Report:
    """Verify all files of a record, and return the findings.

    It detects lines that were changed, moved, put in or taken out; with a chain's head also that its end was cut off,
    or that it was written anew: without a head nobody can tell.

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
                known = kept.get((line.head.chain, line.head.number), line.head)
                report.tampering += [
                    f"{path}:{number}: chain {known.chain}: {what}" for what in _add(chain, line, known)
                ]
                chain.has_ended = line.event == "closed"
    for name, number in kept:
        chain = report.chains.get(name, Chain())
        if number >= chain.next:
            what = f"{_are(chain.next, number)} cut off" if chain.next else "all of it is taken out"
            report.tampering.append(f"chain {name}: {what}, as its head shows, or it was written anew")
    return report


def _add(chain: Chain, line: Line, known: Head) -> Iterator[str]:
    """Add a line to its chain, and yield what is wrong with it, by itself and beside the head `known` of it."""
    number = line.head.number
    chain.n_lines += 1
    if not line.is_whole:
        yield f"line {number} was changed"
    if known != line.head:
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
    """Report text that is a piece of a line, or that no chain wrote."""
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
"""Characters of a text that are held until it is written: one more than are read shows that it was cut."""
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
    """Return a bounded copy of arguments: each text whole or left out.

    What is left out is not looked at, since this runs on the event loop. NaN and numbers of hundreds of digits are left
    out too, as not every reader of JSON takes them.
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
    """Return the bytes of all names and values in a result, as the record logs and quotas count them.

    It yields to the event loop after every few thousand parts; a thread would hold the interpreter as long.
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
    """Return the fields of an event's line; texts that callers may have written are redacted.

    Args:
        event: its name.
        said: its fields; the trace's id as a number.
        own: this server's own texts, which are not redacted.
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
    """Redact what looks like a secret, by itself or by its name; a mark stands in its place."""
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
