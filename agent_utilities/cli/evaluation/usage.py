"""What a usage file teaches: JSON lines of past requests, or the log of a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from agent_utilities.cli.evaluation.data import Tool, past_requests, read_requests
from agent_utilities.errors import InputError
from agent_utilities.usage.learned import NOTHING_LEARNED, Learned

_SQLITE = b"SQLite format 3\0"

Value = TypeVar("Value")


def read_usage(path: Path | None, tools: Sequence[Tool]) -> Learned:
    """Return what a file teaches of tools, by their ids.

    Args:
        path: JSON lines of past requests and the tools that answered them, or a server's usage log; None for no file.
        tools: the catalog.

    Raises:
        InputError: it can't be read, or is the log of other tools.
        UsageError: it is a log, and damaged, locked or of a later version.
    """
    if path is None:
        return NOTHING_LEARNED
    if not _is_log(path):
        return Learned(version=path.name, past_requests=past_requests(read_requests(path)))
    learned = _by_id(read_log(path), _ids_by_name(tools))
    if not learned.uses:
        raise InputError("no call of these tools is logged", str(path), "--usage", "give the log of their server")
    return learned


def read_log(path: Path) -> Learned:
    """Return what a usage log teaches of all servers in it, as of its last call.

    Raises:
        UsageError: it can't be read.
    """
    from agent_utilities.usage.reading import read_learned
    from agent_utilities.usage.snapshot import snapshot

    with snapshot(path) as log:
        rows = [] if log is None else log.execute("SELECT server, max(at_ms) FROM calls GROUP BY server").fetchall()
    now_ms = max((last_ms for _, last_ms in rows), default=0)
    return together([read_learned(path, server, "", now_ms) for server, _ in rows])


def together(parts: Sequence[Learned]) -> Learned:
    """Return what several logs, or sessions, teach together; counts add up."""
    past: dict[str, tuple[str, ...]] = {}
    for learned in parts:
        for tool, requests in learned.past_requests.items():
            past[tool] = (*past.get(tool, ()), *requests)
    return Learned(
        version=" ".join(learned.version for learned in parts),
        uses=_summed([learned.uses for learned in parts]),
        past_requests=past,
        used_with=_summed([learned.used_with for learned in parts]),
        followed_by=_summed([learned.followed_by for learned in parts]),
    )


def _is_log(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # it is said why where it is read as lines


def _ids_by_name(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the id of each tool by its id, and by its name where no other tool has that."""
    n_named = Counter(tool.document.name for tool in tools)
    named = {tool.document.name: tool.id for tool in tools if n_named[tool.document.name] == 1}
    return named | {tool.id: tool.id for tool in tools}


def _by_id(learned: Learned, ids: Mapping[str, str]) -> Learned:
    """Return what was learned of tools that are there, by their ids."""
    return Learned(
        version=learned.version,
        uses=_renamed(learned.uses, ids),
        past_requests=_renamed(learned.past_requests, ids),
        used_with=_renamed_pairs(learned.used_with, ids),
        followed_by=_renamed_pairs(learned.followed_by, ids),
    )


def _renamed(values: Mapping[str, Value], ids: Mapping[str, str]) -> dict[str, Value]:
    return {ids[name]: value for name, value in values.items() if name in ids}


def _renamed_pairs(counts: Mapping[tuple[str, str], int], ids: Mapping[str, str]) -> dict[tuple[str, str], int]:
    return {(ids[a], ids[b]): n for (a, b), n in counts.items() if a in ids and b in ids}


Key = TypeVar("Key", str, tuple[str, str])
Count = TypeVar("Count", int, float)


def _summed(counts: Sequence[Mapping[Key, Count]]) -> dict[Key, Count]:
    summed: dict[Key, Count] = {}
    for by_key in counts:
        for key, n in by_key.items():
            summed[key] = summed[key] + n if key in summed else n
    return summed
