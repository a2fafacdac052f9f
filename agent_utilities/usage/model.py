"""What a usage log keeps, how much and where, under which keys of callers, what it teaches, and why it fails."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Literal

from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.runtime.process_io import expanded, own_folder, read_whole, write_whole

Cause = Literal["locked", "full", "read-only", "failing", "corrupt", "foreign", "newer", "unavailable"]

FINAL: frozenset[Cause] = frozenset({"corrupt", "foreign", "newer", "unavailable"})
"""Causes that no waiting ends."""

_WHAT: dict[Cause, tuple[str, str]] = {
    "locked": ("another program keeps the usage log locked", "end that program"),
    "full": ("no room for the usage log", "make room on its disk, or keep fewer rows by MCP_USAGE_ROWS"),
    "read-only": ("the usage log can't be read or written", "give this user the file and its folder"),
    "failing": ("the disk of the usage log fails", "see what the system says of that disk"),
    "corrupt": ("the usage log is damaged", "move it aside, or delete it with `agent-utilities usage forget --all`"),
    "foreign": ("the file is no usage log", "move it aside, or name another file by MCP_USAGE_FILE"),
    "newer": (
        "the usage log is of a later version of agent-utilities",
        "install that version, or name another file by MCP_USAGE_FILE",
    ),
    "unavailable": ("this Python has no SQLite", "install one that has the module sqlite3"),
}

_BY_SQLITE: dict[int, Cause] = {
    **dict.fromkeys((3, 8, 14), "read-only"),  # SQLITE_PERM, READONLY, CANTOPEN
    **dict.fromkeys((5, 6), "locked"),  # BUSY, LOCKED
    **dict.fromkeys((11, 26), "corrupt"),  # CORRUPT, NOTADB
    **dict.fromkeys((13, 4874), "full"),  # FULL, IOERR_SHMSIZE
}
"""Causes by SQLite's result codes, written as numbers so that `sqlite3` is imported only by servers that log."""
_BY_SYSTEM: dict[int | None, Cause] = {
    **dict.fromkeys((errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)), "full"),
    **dict.fromkeys((errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT), "read-only"),
    **dict.fromkeys((errno.EISDIR, errno.ENOTDIR, errno.EEXIST), "foreign"),
}


class UsageError(AgentUtilitiesError, OSError):
    """A usage log that can't be written or read; `detail` is what SQLite or the system said, if it adds something."""

    def __init__(self, cause: Cause, path: Path, detail: object = "") -> None:
        self.cause: Cause = cause
        what, hint = _WHAT[cause]
        said = f" ({detail})" if str(detail) else ""
        super().__init__(f"{what}: {str(path)!r}{said}; {hint}")

    @property
    def is_temporary(self) -> bool:
        """Whether it may end while the server runs."""
        return self.cause not in FINAL


def usage_error(error: Exception, path: Path) -> UsageError:
    """Return an error of SQLite or of the system as one of a usage log."""
    if isinstance(error, UsageError):
        return error
    if isinstance(error, ImportError):
        return UsageError("unavailable", path, error)
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return UsageError(_BY_SQLITE.get(code) or _BY_SQLITE.get(code & 0xFF, "failing"), path, error)
    number = error.errno if isinstance(error, OSError) else None
    cause = _BY_SYSTEM.get(number, "failing")
    return UsageError(cause, path, os.strerror(number or 0) if cause in ("full", "foreign") else error)


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
PRUNE_S = 3600.0
"""The most seconds between two prunings."""

_ROW_BYTES = 512
"""What a row takes at most by and large: some 150 bytes by measurement, and the words that led to a call."""
_LEAST_BYTES = 1 << 20
_BESIDE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Call:
    """A finished call of a tool that its caller was permitted.

    Args:
        at_ms: when it was over, in UTC epoch milliseconds.
        server: the server or gateway that was called.
        tool: the name that callers see.
        upstream: the server behind a gateway that the tool comes from; empty for a server's own.
        version: the tool's, where it has one.
        session: drawn at random for each connection; empty where the request stood alone.
        turn: which turn of its session it was made in, from 1; 0 where there was none.
        ok: whether the tool answered without an error.
        ms: how many milliseconds it took.
        revision: of the surface it was made under.
        subject: a salted hash of who called, where the log is kept for each subject; else empty.
        request: the words that led to it, without what looks like a secret; empty unless words are kept.
        result_tokens, given_tokens: those of its whole result, and how many of them were given; 0 where not counted.
    """

    at_ms: int
    server: str
    tool: str
    upstream: str = ""
    version: str = ""
    session: str = ""
    turn: int = 0
    ok: bool = True
    ms: float = 0.0
    revision: str = ""
    subject: str = ""
    request: str = ""
    result_tokens: int = 0
    given_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Search:
    """A search by `tool_search`, or the query of a list; fields are those of a `Call`, and how many tools matched."""

    at_ms: int
    server: str
    n_found: int
    session: str = ""
    subject: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """How often a tool was listed in an interval that ended at `at_ms`; fields are named as in a `Call`.

    Args:
        n_lists: how many lists it stood in.
        n_tokens: what its definition takes in a prompt.
    """

    at_ms: int
    server: str
    tool: str
    upstream: str = ""
    n_lists: int = 1
    n_tokens: int = 0


_PROJECTION = re.compile(
    r"""(?=.{0,300}\Z)(?:[A-Za-z_]\w{0,63}+(?!\w)|"[A-Za-z_@$][\w$-]{0,63}+"|[.,:|@*{}[\] ])++""", re.ASCII
)
"""Names of fields and what joins them: no literal, number, filter or function, which could hold a value."""


@dataclass(frozen=True, slots=True)
class Read:
    """A caller read on in a result that had been shortened; fields are named as in a `Call`.

    Args:
        projection: what was selected, by JMESPath; empty for a range or a find, and where more than names is in it.
        n_tokens, n_selected: those of the whole result, and of what was selected.
    """

    at_ms: int
    server: str
    tool: str
    projection: str = ""
    n_tokens: int = 0
    n_selected: int = 0

    def __post_init__(self) -> None:
        if not _PROJECTION.fullmatch(self.projection):
            object.__setattr__(self, "projection", "")


Event = Call | Search | Listed
"""What a server and its replicas log alike: never arguments, results, tokens or addresses."""
Entry = Event | Read
"""What the log stores."""


@dataclass(frozen=True, slots=True)
class UsageBounds:
    """The bounds of one log.

    Args:
        days: the age at which what was logged goes.
        rows: the most calls, and as many searches.
        free_bytes: what a log leaves free on its disk.
    """

    days: int = 30
    rows: int = 200_000
    free_bytes: int = 64 << 20

    @property
    def file_bytes(self) -> int:
        """The most bytes of the file after it was pruned."""
        return max(_LEAST_BYTES, self.rows * _ROW_BYTES)

    @property
    def disk_bytes(self) -> int:
        """The most bytes on disk, with the files that SQLite writes beside it; at this size writing stops."""
        return 2 * self.file_bytes + _BESIDE_BYTES


@dataclass(frozen=True)
class Learned:
    """What is learned from the calls of everybody, or of one subject.

    Args:
        version: differs where anything below does; empty where nothing was learned.
        uses: how much each tool was used of late, by name: calls that count half after each half-life, many calls of
            one session hardly more than a few.
        past_requests: the requests that each tool answered, by name, oldest first; at most 20 each.
        used_with: how many sessions called both tools of a pair, the names in order of the alphabet.
        followed_by: how often the second tool of a pair was the next one called in a session after the first.
    """

    version: str = ""
    uses: Mapping[str, float] = field(default_factory=dict)
    past_requests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    used_with: Mapping[tuple[str, str], int] = field(default_factory=dict)
    followed_by: Mapping[tuple[str, str], int] = field(default_factory=dict)


NOTHING_LEARNED = Learned()
"""Of an empty log, or none."""

EVERYBODY = ""
"""The scope of what everybody's calls on a server teach."""
NOBODY = "-"
"""The scope of callers who did not authenticate, where usage counts for each subject: nothing is learned for them."""
N_NEAR = 8
"""The most tools that one trail holds."""


@dataclass(frozen=True, slots=True)
class UsageSource:
    """The source from which a server learns what was called."""

    read: Callable[[str], Learned]
    """Reads what the log teaches in a scope; may take long, and may raise."""
    is_shared: bool = True
    """Whether all callers learn from all calls; otherwise each subject learns from their own alone."""


def usage_file(server: str, path: str = "") -> Path:
    """Return the file of a server's log.

    Args:
        path: the file that the operator names, `MCP_USAGE_FILE`; one in the user's state folder where blank.
    """
    if path:
        return expanded(path)
    return own_folder("state") / "usage" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', server)[:100] or 'server'}.db"


_SALT_BYTES = 32
_KEY_BYTES = 8


def subject_key(salt: bytes, subject: str) -> str:
    """Return the key of who calls, 16 hexadecimal digits: the same for all time.

    Without the salt, which nobody else has, it can't be made from a guessed subject.
    """
    encoded = subject.encode("utf-8", "surrogatepass")
    return blake2b(encoded, digest_size=_KEY_BYTES, key=salt, person=b"subject").hexdigest()


def read_salt(log: Path) -> bytes:
    """Return the 32 bytes of a log's salt, drawn once, in a file beside it that only its user can read."""
    path = log.with_name(f"{log.name}.salt")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            write_whole(path, secrets.token_bytes(_SALT_BYTES))
        salt = read_whole(path, 2 * _SALT_BYTES)
    except OSError as error:
        raise usage_error(error, path) from error
    if len(salt) != _SALT_BYTES:
        raise UsageError("corrupt", path, f"{len(salt)} bytes of salt, not {_SALT_BYTES}")
    return salt
