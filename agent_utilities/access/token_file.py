"""Tokens for a small team: a file with the hash of each, its owner, its profile, and its expiry."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import read_whole, write_whole

PREFIX = "au_"
"""What every token of a file begins with, so that scanners of secrets and people know one when they see it."""
_MAX_BYTES = 1 << 20
_NAME = r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}"
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


class Token(BaseModel):
    """One token's entry in a file."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(pattern=f"^{_NAME}$")
    """Whose it is."""
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Of the token, in hex."""
    created: AwareDatetime
    profile: str = ""
    """The profile that bounds it, beside any rule; empty for none."""
    expires: AwareDatetime | None = None
    """When it expires; None for never."""

    def is_over(self) -> bool:
        """Return whether it has expired."""
        return self.expires is not None and self.expires <= datetime.now(UTC)


class TokenFile(BaseModel):
    """The content of a file of tokens."""

    v: Literal[1]
    tokens: tuple[Token, ...]

    def find(self, text: str) -> Token | None:
        """Return the entry of a token, expired or not; hashes are compared in constant time."""
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return next((token for token in self.tokens if hmac.compare_digest(token.sha256, digest)), None)

    def taken(self) -> frozenset[Token]:
        """Return the tokens that have not expired."""
        return frozenset(token for token in self.tokens if not token.is_over())


def read_tokens(path: Path) -> TokenFile:
    """Return a file's content; an empty one where there is no file, so that no token is accepted.

    Raises:
        InputError: it can't be read, or others may read it.
    """
    hint = "bring back the file as `agent-utilities token` wrote it, or remove it: then no token is taken"
    try:
        content = read_whole(path, _MAX_BYTES)
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise InputError("others may read or write the tokens", str(path), "file", f"chmod 600 {path}")
    except FileNotFoundError:
        return TokenFile(v=1, tokens=())
    except OSError as error:
        raise InputError("the tokens can't be read", error.strerror or str(error), str(path), hint) from None
    try:
        return TokenFile.model_validate_json(content)
    except ValidationError:
        raise InputError("the tokens can't be taken", f"{len(content)} bytes", str(path), hint) from None


def new_token(path: Path, name: str, profile: str = "", valid_for: str = "") -> str:
    """Create a token, store its hash in a file, and return it; the token itself is stored nowhere.

    Args:
        path: the file; made where there is none.
        name: whose it is; the subject of who calls with it.
        profile: bounds it, beside any rule.
        valid_for: how long it is accepted, such as `90d`, `12h` or `30m`; for ever where empty.

    Raises:
        InputError: the name is taken or is none, the time can't be read, the file is full, or can't be read or written.
    """
    if not re.fullmatch(_NAME, name):
        raise InputError("not a name", name, "argument NAME", "use letters, digits and . _ @ + -, at most 100")
    now, expires = datetime.now(UTC).replace(microsecond=0), None
    if valid_for:
        if (match := re.fullmatch(r"([1-9]\d{0,4})([dhm])", valid_for.strip())) is None:
            raise InputError("not a time", valid_for, "option --expires", "write it as 90d, 12h or 30m")
        expires = now + timedelta(**{_UNITS[match[2]]: int(match[1])})
    text = PREFIX + token_urlsafe(32)
    digest = sha256(text.encode()).hexdigest()
    with _changing(path) as tokens:
        if any(token.name == name for token in tokens):
            raise InputError("there is a token of this name", name, str(path), f"agent-utilities token revoke {name}")
        tokens.append(Token(name=name, sha256=digest, created=now, profile=profile, expires=expires))
    return text


def revoke_token(path: Path, name: str) -> None:
    """Remove a token from a file; servers refuse it within a second.

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
    """Hold a file's tokens to be changed, while nobody else changes them, and write them once they are.

    Who changes them by a link takes turns with who changes them by the file that it leads to.
    """
    real = Path(os.path.realpath(path))
    try:
        real.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with real.with_name(f"{real.name}.lock").open("a+") as lock:  # to read too: a pipe would be waited for
            os.chmod(lock.name, 0o600)
            if os.name == "posix":
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = list(read_tokens(path).tokens)
            n_before = len(tokens)
            yield tokens
            changed = TokenFile(v=1, tokens=tuple(tokens))
            content = changed.model_dump_json(indent=1).encode() + b"\n"
            if len(content) > _MAX_BYTES and len(tokens) > n_before:
                hint = f"{_MAX_BYTES} bytes are the most that is read: revoke tokens that nobody uses any more"
                raise InputError("the file of tokens is full", f"{n_before} tokens", str(path), hint)
            if len(content) > _MAX_BYTES:  # it was written by another, closer
                content = changed.model_dump_json(exclude_defaults=True).encode()
            write_whole(real, content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError("the tokens can't be written", reason, str(path), "make the folder writable") from None
