"""Times of log lines as UTC epoch seconds; a time that names no zone is taken as UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta, timezone

from fastmcp.exceptions import ToolError

LATEST = 7_258_118_400.0
"""Year 2200: later times, and times before 1970, are taken for garbage."""

STAMP = (
    r"(?P<iso>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?!\w))?)"
    r"|(?P<clf>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?)"
    r"|(?P<syslog>[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)"
    r"|(?P<asc>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})? \d{4})"
    r"|(?P<epoch>1\d{9}(?:\.\d{1,9})?|1\d{12})(?=[\s\]:])"
)
"""One alternation; the name of the group that matched is the shape to pass to `parse_stamp`."""

_MONTHS = {m: i for i, m in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)}
_RELATIVE = re.compile(r"(\d{1,9}) ?(s|m|h|d|w)(?: ago)?", re.ASCII)
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_stamp(shape: str, text: str, written: float) -> float | None:
    """Return the epoch seconds of a matched stamp, `None` when it is no real date.

    Args:
        shape: the `STAMP` group that matched.
        text: the matched text.
        written: the file's modification time; it supplies the year syslog stamps leave out.
    """
    try:
        if shape == "iso":
            return parse_iso(text)
        if shape == "epoch":
            return epoch(float(text))
        if shape == "clf":
            return _clf(text)
        if shape == "asc":
            clock = text[11:-5]
            return _sane(_utc(int(text[-4:]), _MONTHS[text[4:7]], int(text[8:10]), clock))
        return _syslog(text, written)
    except (ValueError, KeyError, OverflowError, OSError):
        return None


def parse_iso(text: str) -> float | None:
    """Return the epoch seconds of an ISO-8601 time, with the liberties logs take; `None` when it is none."""
    moment = _iso(text.strip())
    return None if moment is None else _sane(moment)


def _iso(text: str) -> datetime | None:
    if text.endswith(("UTC", "GMT")):
        text = text[:-3].rstrip() + "Z"
    if "/" in text:
        text = text.replace("/", "-")
    if " " in text[19:]:
        text = text[:19] + text[19:].replace(" ", "", 1)
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    except ValueError:
        return None


def epoch(number: float) -> float | None:
    """Return epoch seconds from a number of seconds, milli-, micro- or nanoseconds, told apart by size."""
    for scale in (1.0, 1e3, 1e6, 1e9):
        if 1e8 <= number / scale < LATEST:
            return number / scale
    return None


def shown(moment: float | None) -> str | None:
    """Return the moment as an ISO-8601 UTC string ending in `Z`, milliseconds only when there are any."""
    if moment is None or not 0 <= moment < LATEST:
        return None
    value = datetime.fromtimestamp(round(moment, 3), UTC)
    return value.isoformat(timespec="milliseconds" if value.microsecond else "seconds").replace("+00:00", "Z")


def asked(value: str | None, name: str) -> float | None:
    """Return the epoch seconds a caller's `since` or `until` means.

    Args:
        value: an ISO-8601 time (no zone: UTC), or an age like `15m`, `2h`, `7d` counted back from now.
        name: the parameter's name, for the message.

    Raises:
        ToolError: it is neither.
    """
    if value is None or not value.strip():
        return None
    text = value.strip()
    if text == "now":
        return time.time()
    if relative := _RELATIVE.fullmatch(text):
        return time.time() - int(relative[1]) * _UNIT_S[relative[2]]
    moment = _iso(text.replace("z", "Z"))
    if moment is None:
        raise ToolError(
            f"not a time: {value[:60]!r} in {name!r}; give ISO-8601 like '2025-01-31T13:00:00Z' "
            "or an age like '15m', '2h', '7d'"
        )
    return moment.timestamp()


def span_s(text: str, name: str) -> int:
    """Return the seconds of a length of time like `30s`, `5m`, `1h`, `1d`.

    Raises:
        ToolError: it is none, or zero.
    """
    found = _RELATIVE.fullmatch(text.strip())
    if not found or int(found[1]) == 0:
        raise ToolError(f"not a length of time: {text[:60]!r} in {name!r}; give '30s', '5m', '1h' or '1d'")
    return int(found[1]) * _UNIT_S[found[2]]


def _sane(moment: datetime) -> float | None:
    value = moment.timestamp()
    return value if 0 <= value < LATEST else None


def _utc(year: int, month: int, day: int, clock: str) -> datetime:
    hour, minute, second = clock.split(":")
    whole, _, fraction = second.partition(".")
    micro = int((fraction + "000000")[:6])
    return datetime(year, month, day, int(hour), int(minute), min(int(whole), 59), micro, tzinfo=UTC)


def _clf(text: str) -> float | None:
    moment = _utc(int(text[7:11]), _MONTHS[text[3:6]], int(text[:2]), text[12:20])
    if zone := text[21:]:
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
        moment = moment.replace(tzinfo=timezone(-offset if zone[0] == "-" else offset))
    return _sane(moment)


def _syslog(text: str, written: float) -> float | None:
    month, day, clock = _MONTHS[text[:3]], int(text[4:6]), text[7:]
    year = datetime.fromtimestamp(written, UTC).year
    for candidate in (year, year - 1, year - 2, year - 3):  # 29 February may need a leap year
        try:
            value = _sane(_utc(candidate, month, day, clock))
        except ValueError:
            continue
        if value is not None and value <= written + 86_400:
            return value
    return None
