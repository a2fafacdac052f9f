"""Log formats: which one a file is in, and a parser for each.

A parser turns a line into a `Record`, or into `None` when the line doesn't begin a record of its format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from logs_agent.levels import WORDS, level_of, level_of_status, severity
from logs_agent.records import Record, of_a_trace
from logs_agent.timestamps import STAMP, epoch, parse_iso, parse_stamp

Format = Literal["plain", "json", "logfmt", "access"]
Parser = Callable[[str, int, float], Record | None]
"""(line, line number, the file's modification time) -> record."""

TIME_KEYS = (
    "time",
    "timestamp",
    "@timestamp",
    "ts",
    "t",
    "datetime",
    "@t",
    "date",
    "asctime",
    "created",
    "eventTime",
)
LEVEL_KEYS = (
    "level",
    "levelname",
    "severity",
    "lvl",
    "loglevel",
    "log.level",
    "severityText",
    "severity_text",
    "@l",
)
MESSAGE_KEYS = ("message", "msg", "@m", "@mt", "event", "short_message", "body", "text", "log", "error")
STATUS_KEYS = (
    "status",
    "status_code",
    "statusCode",
    "res.statusCode",
    "http.response.status_code",
    "httpRequest.status",
)
TRACE_KEYS = (
    "stack",
    "stack_trace",
    "stacktrace",
    "traceback",
    "exc_info",
    "exception",
    "error.stack_trace",
    "err.stack",
)

_HEAD = re.compile(
    rf"(?:<(?P<pri>\d{{1,3}})>(?:1 )?)?(?:\[?(?P<first>{WORDS})\]?[\s:|-]{{1,4}})?[\[(]?(?:{STAMP})[\])]?",
    re.IGNORECASE,
)
_GLOG = re.compile(r"(?P<level>[IWEF])(?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)\.\d+ +\d+ [^\]]+\] ")
_BARE = re.compile(rf"(?:\[(?P<in>(?i:{WORDS}))\]|(?P<up>{WORDS})(?=[\s:|\-]))[\s:|-]*")
_LEVEL = re.compile(
    rf"\b(?P<up>{WORDS})\b|[\[:|(<](?P<in>(?i:{WORDS}))[\])|>]|\b(?:level|lvl|severity)=\"?(?P<kv>(?i:{WORDS}))\b\"?"
    rf"|(?:^|\s)(?P<colon>(?i:{WORDS})):"
)
_ACCESS = re.compile(
    r"(?:\S+:\d{1,5} )?(?P<client>\S+) \S+ [^\[]{0,200}?\[(?P<time>[^\]]{20,40})\] "
    r'"(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}) (?P<bytes>\d+|-)'
    r'(?: "(?:[^"\\]|\\.)*" "(?:[^"\\]|\\.)*")?(?P<tail>.*)'
)
_PAIR = re.compile(r'(?<![\w.@-])([A-Za-z_@][\w.@-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)')
_LOGFMT = re.compile(r'(?:time|ts|t|timestamp|level|lvl|severity|at)=(?:"|\S)')


def parse_plain(line: str, number: int, written: float) -> Record | None:
    """Return the record a plain-text line begins: a time first, or a level word first."""
    if head := _HEAD.match(line):
        shape = next(name for name in ("iso", "clf", "syslog", "asc", "epoch") if head[name])
        moment = parse_stamp(shape, head[shape], written)
        if moment is not None:
            level = level_of(head["first"])
            if level is None and head["pri"] is not None:
                level = severity(int(head["pri"]))
            rest = line[head.end() :]
            found = None if head["first"] else _LEVEL.search(rest, 0, 120)
            if found and level is None:
                level = level_of(found[found.lastgroup or 0])
            if found and len(rest[: found.start()].split()) <= 4:
                rest = rest[found.end() :]
            return Record(number, line, rest.lstrip(" \t-:|]").rstrip(), moment, level)
    if glog := _GLOG.match(line):
        year_free = f"{_MONTH_NAMES[(int(glog['month']) - 1) % 12]} {glog['day']} {glog['clock']}"
        moment = parse_stamp("syslog", year_free, written)
        if moment is not None:
            level = level_of({"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL"}[glog["level"]])
            return Record(number, line, line[glog.end() :], moment, level)
    if bare := _BARE.match(line):
        return Record(number, line, line[bare.end() :], None, level_of(bare["in"] or bare["up"]))
    return None


_MONTH_NAMES = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def parse_json(line: str, number: int, written: float) -> Record | None:
    """Return the record of a line holding one JSON object."""
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return _from_fields(value, line, number) if isinstance(value, dict) else None


def parse_logfmt(line: str, number: int, written: float) -> Record | None:
    """Return the record of a `time=... level=... msg="..."` line."""
    if not _LOGFMT.match(line):
        return None
    pairs = {key: _unquoted(value) for key, value in _PAIR.findall(line)}
    return _from_fields(pairs, line, number)


def parse_access(line: str, number: int, written: float) -> Record | None:
    """Return the record of a common or combined access-log line; its level follows the status."""
    found = _ACCESS.match(line)
    if not found:
        return None
    moment = parse_stamp("clf", found["time"], written) or parse_iso(found["time"])
    method, _, target = found["request"].partition(" ")
    target = target.rpartition(" ")[0] or target
    status = int(found["status"])
    fields = {
        "method": method,
        "path": target,
        "status": status,
        "client": found["client"],
        "tail": found["tail"],
    }
    message = f"{method} {target.split('?', 1)[0]} {status}"
    return Record(number, line, message, moment, level_of_status(status), fields)


PARSERS: dict[Format, Parser] = {
    "json": parse_json,
    "access": parse_access,
    "logfmt": parse_logfmt,
    "plain": parse_plain,
}


def detect(lines: Sequence[str]) -> Format:
    """Return the format most of the lines are in; plain text when no other holds for half of them."""
    starts = [line for line in lines if line.strip() and not of_a_trace(line)]
    for name in ("json", "access", "logfmt"):
        if starts and 2 * sum(PARSERS[name](line, 0, 0.0) is not None for line in starts) >= len(starts):
            return name
    return "plain"


def dig(fields: Mapping[str, Any], key: str) -> Any:
    """Return the value under a key, `a.b` standing for either the key `a.b` or `b` inside `a`."""
    if key in fields or "." not in key:
        return fields.get(key)
    value: Any = fields
    for part in key.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def first_of(fields: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Return the first value present under the keys."""
    for key in keys:
        value = dig(fields, key)
        if value is not None and value != "":
            return value
    return None


def status_of(fields: Mapping[str, Any]) -> int | None:
    """Return the HTTP status among the fields."""
    value = first_of(fields, STATUS_KEYS)
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() else None


def text_of(value: object) -> str | None:
    """Return a field's value as text that can be encoded, `None` for objects and lists."""
    return _encodable(str(value)) if isinstance(value, str | int | float) else None


def _from_fields(fields: dict[str, Any], line: str, number: int) -> Record:
    level = next((known for key in LEVEL_KEYS if (known := level_of(dig(fields, key)))), None)
    level = level or level_of_status(status_of(fields))
    message = text_of(first_of(fields, MESSAGE_KEYS))
    if message is None:
        request = [part for key in ("method", "path", "status") if (part := text_of(dig(fields, key)))]
        message = " ".join(request) if len(request) > 1 else line
    elif level is None and (inner := parse_plain(message, number, 0.0)):
        level, message = inner.level, inner.message  # a wrapped line, as container runtimes write
    record = Record(number, line, message, _time_of(first_of(fields, TIME_KEYS)), level, fields)
    trace = first_of(fields, TRACE_KEYS)
    if isinstance(trace, str) and "\n" in trace:
        for part in _encodable(trace).splitlines()[:200]:
            record.join(part)
    return record


def _time_of(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return epoch(value) if abs(value) < 1e20 else None
    if isinstance(value, str):
        moment = parse_iso(value) if len(value) < 64 else None
        if moment is None and re.fullmatch(r"\d{9,19}(?:\.\d{1,9})?", value):
            moment = epoch(float(value))
        return moment
    return None


def _unquoted(value: str) -> str:
    return value[1:-1].replace('\\"', '"').replace("\\n", "\n") if value.startswith('"') else value


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
