"""Tokens for a small team: a file that keeps the hash of each, whose it is, what it is bounded to, and until when."""

from __future__ import annotations

import hmac
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import write_whole

PREFIX = "au_"
"""What every token of a file begins with, so that scanners of secrets and people know one when they see it."""
_VERSION = 1
_MAX_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}")
_FOR = re.compile(r"([1-9]\d{0,4})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


@dataclass(frozen=True, slots=True)
class Token:
    """What a file keeps of one token.

    Args:
        name: whose it is.
        sha256: of the token, in hex.
        created: when it was made, in ISO 8601.
        profile: what it is bounded to, beside any rule; empty for nothing.
        expires: until when it is taken, in ISO 8601; empty for ever.
    """

    name: str
    sha256: str
    created: str
    profile: str = ""
    expires: str = ""

    @property
    def expires_at(self) -> int | None:
        """Seconds since 1970 at which it ends."""
        return int(datetime.fromisoformat(self.expires).timestamp()) if self.expires else None


@dataclass(frozen=True, slots=True)
class TokenFile:
    """What a file of tokens holds."""

    tokens: tuple[Token, ...] = ()

    def find(self, text: str) -> Token | None:
        """Return the token that a text is, expired or not; in a time that tells nothing of which it nearly is."""
        digest, found = sha256(text.encode("utf-8", "surrogatepass")).hexdigest(), None
        for token in self.tokens:
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def expired(self, now_s: float) -> frozenset[str]:
        """Return the names of the tokens that are taken no more, by seconds since 1970."""
        ends = ((token.name, token.expires_at) for token in self.tokens)
        return frozenset(name for name, end_s in ends if end_s is not None and end_s <= now_s)


def read_tokens(path: Path) -> TokenFile:
    """Return what a file holds; nothing where there is none: then nobody's token is taken.

    Raises:
        InputError: it can't be read, or others may read it.
    """
    hint = "bring back the file as `agent-utilities token` wrote it, or remove it: then no token is taken"
    try:
        with path.open("rb") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
                raise InputError("others may read or write the tokens", str(path), "file", f"chmod 600 {path}")
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return TokenFile()
    except OSError as error:
        raise InputError("the tokens can't be read", error.strerror or str(error), str(path), hint) from None
    try:
        held = json.loads(content)
        if held["v"] != _VERSION or len(content) > _MAX_BYTES:
            raise ValueError(f"version {held['v']!r}")
        tokens = tuple(Token(**{name: each.get(name, "") for name in Token.__slots__}) for each in held["tokens"])
        for token in tokens:
            if not _NAME.fullmatch(token.name) or not re.fullmatch("[0-9a-f]{64}", token.sha256):
                raise ValueError("an entry")
            _ = token.expires_at
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError("the tokens can't be taken", f"{len(content)} bytes", str(path), hint) from None
    return TokenFile(tokens)


def new_token(path: Path, name: str, profile: str = "", valid_for: str = "") -> str:
    """Make a token, keep its hash in a file, and return it: it is kept nowhere else.

    Args:
        path: the file; made where there is none.
        name: whose it is; the subject of who calls with it.
        profile: what it is bounded to, beside any rule.
        valid_for: how long it is taken, such as `90d`, `12h` or `30m`; for ever where empty.

    Raises:
        InputError: the name is taken or is none, the time can't be read, or the file can't be read or written.
    """
    if not _NAME.fullmatch(name):
        raise InputError("not a name", name, "argument NAME", "use letters, digits and . _ @ + -, at most 100")
    now = datetime.now(UTC)
    expires = (now + _duration(valid_for)).isoformat(timespec="seconds") if valid_for else ""
    text = PREFIX + token_urlsafe(32)
    digest = sha256(text.encode()).hexdigest()
    with _changing(path) as tokens:
        if any(token.name == name for token in tokens):
            raise InputError("there is a token of this name", name, str(path), f"agent-utilities token revoke {name}")
        tokens.append(Token(name, digest, now.isoformat(timespec="seconds"), profile, expires))
    return text


def revoke_token(path: Path, name: str) -> None:
    """Take a token out of a file; servers that took it refuse it within a second.

    Raises:
        InputError: there is none of this name, or the file can't be read or written.
    """
    with _changing(path) as tokens:
        kept = [token for token in tokens if token.name != name]
        if len(kept) == len(tokens):
            known = ", ".join(token.name for token in tokens) or "none"
            raise InputError("no token of this name", name, str(path), f"there are: {known}")
        tokens[:] = kept


@contextmanager
def _changing(path: Path) -> Iterator[list[Token]]:
    """Hold a file's tokens to be changed, and write them once they are: nobody else's change is lost."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(path.with_name(f"{path.name}.lock")):
        tokens = list(read_tokens(path).tokens)
        yield tokens
        held: dict[str, Any] = {"v": _VERSION, "tokens": [asdict(token) for token in tokens]}
        try:
            write_whole(path, (json.dumps(held, indent=1) + "\n").encode())
        except OSError as error:
            reason = error.strerror or str(error)
            raise InputError("the tokens can't be written", reason, str(path), "make the folder writable") from None


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until nobody else changes the file, where the system has locks of files."""
    with path.open("a") as file:
        path.chmod(0o600)
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _duration(text: str) -> timedelta:
    if (found := _FOR.fullmatch(text.strip())) is None:
        raise InputError("not a time", text, "option --expires", "write it as 90d, 12h or 30m")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
