"""What the log keeps: never arguments, results, tokens or addresses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool that the caller was permitted, over.

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


@dataclass(frozen=True, slots=True)
class Search:
    """A search by `tool_search`, or a query of a list.

    Args:
        at_ms: when, in UTC epoch milliseconds.
        server: the server or gateway that was asked.
        n_found: how many tools it found.
        session, subject, request: as for `Call`.
    """

    at_ms: int
    server: str
    n_found: int
    session: str = ""
    subject: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """How often a tool was listed in a while.

    Args:
        at_ms: the end of that while, in UTC epoch milliseconds.
        server: the server or gateway that listed it.
        tool: the name that callers see.
        upstream: as for `Call`.
        n_lists: how many lists it stood in.
        n_tokens: what its definition takes in a prompt.
    """

    at_ms: int
    server: str
    tool: str
    upstream: str = ""
    n_lists: int = 1
    n_tokens: int = 0


Event = Call | Search | Listed
