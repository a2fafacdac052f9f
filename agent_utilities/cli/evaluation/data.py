"""Read an evaluation's data: tools, requests with the tools that answer them, sessions, and past usage."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as read_dataclass

from agent_utilities.catalog.context import n_tokens
from agent_utilities.catalog.document import ToolDocument, document
from agent_utilities.errors import InputError, said_of
from agent_utilities.usage.model import NOTHING_LEARNED, Learned

_T = TypeVar("_T")
Pair = tuple[str, str]
Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool to rank: its id in requests, its document for the ranker, and its cost in a prompt."""

    id: str
    document: ToolDocument
    n_tokens: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request and what answers it.

    Args:
        groups: the tools needed, each satisfied by any member; empty where no tool is.
    """

    id: str
    query: str
    groups: tuple[frozenset[str], ...]


class _ToolRow(BaseModel, extra="allow"):
    id: Text
    name: Text
    server: str | None = None
    tags: list[str] | None = None


class _RequestRow(BaseModel):
    id: Text
    query: Text
    relevant: list[str] | None = None
    groups: list[frozenset[str]] | None = None


def read_tools(path: Path) -> list[Tool]:
    """Return the tools of a JSON lines file, or the permitted ones of a server's `--list --json`."""
    if (listing := _listing(path)) is not None:
        own = [row for row in listing["components"] if row["kind"] == "tool" and not row.get("entry_tool")]
        return [_tool(row["name"], row, listing["server"], row["tags"]) for row in own if row["verdict"] != "denied"]
    tools = []
    for _, row in rows(path, _ToolRow):
        definition = row.model_dump()
        definition.setdefault("inputSchema", definition.get("input_schema"))
        tools.append(_tool(row.id, definition, row.server or "", row.tags or ()))
    return tools


def _listing(path: Path) -> dict[str, Any] | None:
    """Return the output of `--list --json`; None where the file has something else."""
    try:
        body = json.loads(_text(path))
    except ValueError:
        return None
    return body if isinstance(body, dict) and "components" in body else None


def listed_tools(definitions: Iterable[dict[str, Any]], server: str = "") -> list[Tool]:
    """Return the tools that a server lists; their names are their ids."""
    return [_tool(definition["name"], definition, server, ()) for definition in definitions]


def _tool(tool_id: str, definition: dict[str, Any], server: str, tags: Iterable[str]) -> Tool:
    return Tool(tool_id, document(definition, server=server, tags=tags), n_tokens(definition))


def read_requests(path: Path, tools: Sequence[Tool] | None = None) -> list[Request]:
    """Return the requests of a JSON lines file; each needs one of `tools`, and where these are None any, or none."""
    requests, known = [], frozenset(tool.id for tool in tools or ())
    for where, row in rows(path, _RequestRow):
        needed = tuple(row.groups or ()) or tuple(frozenset((tool_id,)) for tool_id in row.relevant or ())
        if tools is not None:
            if not (needed and all(needed)):
                hint = "give requests that no tool answers as --negatives"
                raise InputError("no tool is relevant", row.id, where, hint)
            _check_known(frozenset[str]().union(*needed), known, where)
        requests.append(Request(row.id, row.query, needed))
    return requests


def _check_known(ids: Iterable[str], known: frozenset[str], where: str) -> None:
    for unknown in sorted(frozenset(ids) - known):
        raise InputError("no tool has this id", unknown, where, "give the tools that are asked for")


_SQLITE = b"SQLite format 3\0"


def read_usage(path: Path | None, tools: Sequence[Tool]) -> Learned:
    """Return what a file teaches about tools, by id: from past requests in JSON lines, or a server's usage log."""
    if path is None:
        return NOTHING_LEARNED
    if not _is_log(path):
        answered: dict[str, list[str]] = {}
        for request in read_requests(path):
            for tool_id in sorted(set().union(*request.groups)):
                answered.setdefault(tool_id, []).append(request.query)
        return Learned(past_requests={tool_id: tuple(queries) for tool_id, queries in answered.items()})
    learned = _by_id(_read_log(path), tools)
    if not learned.uses:
        raise InputError("no call of these tools is logged", str(path), "--usage", "give the log of their server")
    return learned


def _is_log(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # reading it as lines says why


def _read_log(path: Path) -> Learned:
    """Return what a usage log teaches about all its servers, as of its last call."""
    from agent_utilities.usage.database import snapshot
    from agent_utilities.usage.learning import read_learned

    with snapshot(path) as log:
        rows = [] if log is None else log.execute("SELECT server, max(at_ms) FROM calls GROUP BY server").fetchall()
    now_ms = max((last_ms for _, last_ms in rows), default=0)
    return together([read_learned(path, server, "", now_ms) for server, _ in rows])


COUNTS = ("uses", "used_with", "followed_by")
"""The fields of `Learned` that are counts."""


def together(parts: Iterable[Learned]) -> Learned:
    """Return what several logs, or sessions, teach together; counts are summed."""
    counts: dict[str, Any] = {field: Counter() for field in COUNTS}
    past: dict[str, tuple[str, ...]] = {}
    for learned in parts:
        for field, total in counts.items():
            total.update(getattr(learned, field))
        for tool, requests in learned.past_requests.items():
            past[tool] = (*past.get(tool, ()), *requests)
    return Learned(past_requests=past, **counts)


def _by_id(learned: Learned, tools: Sequence[Tool]) -> Learned:
    """Return what was learned about existing tools, by id; a tool is also matched by its name where that is unique."""
    n_named = Counter(tool.document.name for tool in tools)
    ids = {tool.document.name: tool.id for tool in tools if n_named[tool.document.name] == 1}
    ids |= {tool.id: tool.id for tool in tools}

    def of_pairs(counts: Mapping[Pair, int]) -> dict[Pair, int]:
        return {(ids[a], ids[b]): n for (a, b), n in counts.items() if a in ids and b in ids}

    return Learned(
        uses={ids[name]: n for name, n in learned.uses.items() if name in ids},
        past_requests={ids[name]: texts for name, texts in learned.past_requests.items() if name in ids},
        used_with=of_pairs(learned.used_with),
        followed_by=of_pairs(learned.followed_by),
    )


@read_dataclass(frozen=True)
class Session:
    """A session's query, and the ids of the tools that it called; one without a query teaches but is not measured."""

    id: Text
    calls: tuple[str, ...]
    query: str = ""

    @property
    def steps(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        """Each first call of a tool after other calls, with these, in order."""
        places = range(1, len(self.calls))
        return tuple((self.calls[:i], self.calls[i]) for i in places if self.calls[i] not in self.calls[:i])


def read_sessions(path: Path, tools: Sequence[Tool]) -> list[Session]:
    """Return the sessions of a JSON lines file."""
    sessions, known = [], frozenset(tool.id for tool in tools)
    for where, session in rows(path, Session):
        _check_known(session.calls, known, where)
        sessions.append(session)
    return sessions


def rows(path: Path, kind: type[_T]) -> Iterator[tuple[str, _T]]:
    """Yield the rows of a JSON lines file, each with its place."""
    reader = TypeAdapter(kind)
    for number, line in enumerate(_text(path).split("\n"), 1):
        where = f"{path.name} line {number}"
        if line.strip():
            try:
                row = reader.validate_json(line)
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                what = ".".join(map(str, first["loc"])) or "the line"
                hint = said_of(first["msg"]).lower()
                raise InputError(f"{what} can't be read", first["input"], where, hint) from None
            yield where, row


def write_rows(path: Path, rows: Iterable[dict[str, Any]], option: str) -> None:
    """Write a JSON line for each row."""
    try:
        path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    except (OSError, UnicodeEncodeError) as error:
        raise InputError("the file can't be written", str(path), f"option {option}", str(error)) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError("the file can't be read", str(path), "command line", str(error)) from None
