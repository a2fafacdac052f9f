"""Chains of lines: each line is numbered, and bears its own hash and that of the one before it.

Each process begins a chain under an id drawn at random, so that several may write to one file. Whoever can write the
file can write a chain anew; only a `Head` that was kept elsewhere shows that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from secrets import token_hex
from typing import Any

from agent_utilities.errors import InputError

_BEGINNING = "0" * 64
"""What stands in a chain's first line for the hash of the one before."""
_LINE = re.compile(
    rb'(\{"chain":"([0-9a-f]{16})","n":(\d{1,18}),"prev":"([0-9a-f]{64})","at":"([^"]+)"[^\n]*),"hash":"([0-9a-f]{64})"\}'
)
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
        is_whole: whether its hash is that of what it says.
    """

    head: Head
    before: str
    at: str
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
    return Line(head, before.decode(), at.decode(errors="replace"), sha256(said).hexdigest() == head.hash)


def start_of(text: bytes) -> tuple[str, int] | None:
    """Return the chain and number that a piece of a line begins with; None where it has not come so far."""
    found = _START.match(text)
    return None if found is None else (found[1].decode(), int(found[2]))
