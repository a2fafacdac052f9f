"""How long requests took: a record's duration, and percentiles of many in constant memory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from logs_agent.formats import dig, first_of, status_of, text_of
from logs_agent.records import Record

Unit = Literal["ns", "us", "ms", "s"]

MS: dict[str, float] = {
    "ns": 1e-6, "us": 1e-3, "µs": 1e-3, "μs": 1e-3, "ms": 1.0, "msec": 1.0, "millis": 1.0,
    "milliseconds": 1.0,
    "s": 1e3, "sec": 1e3, "secs": 1e3, "second": 1e3, "seconds": 1e3, "m": 6e4, "min": 6e4, "minutes": 6e4,
}  # fmt: skip

_NAMES = (
    "duration",
    "latency",
    "elapsed",
    "response_time",
    "request_time",
    "took",
    "time_taken",
    "processing_time",
)
_CAMEL = ("responseTime", "requestTime", "timeTaken", "processingTime", "elapsedTime")
_SUFFIXES: dict[str, Unit] = {
    "_ms": "ms",
    "Ms": "ms",
    "_us": "us",
    "_ns": "ns",
    "Ns": "ns",
    "_s": "s",
    "_seconds": "s",
}
_PATH_KEYS = (
    "path", "url", "uri", "request_uri", "route", "req.url", "url.path", "httpRequest.requestUrl",
)  # fmt: skip
_METHOD_KEYS = ("method", "http_method", "request_method", "req.method", "http.request.method")
_WITH_UNIT = [(name + suffix, unit) for name in (*_NAMES, *_CAMEL) for suffix, unit in _SUFFIXES.items()]
_IN_SECONDS = ("request_time", "upstream_response_time", "requestTime")
_WITHOUT_UNIT = (*_NAMES, *_CAMEL, "upstream_response_time", "time_ms")

_UNITS = "|".join(sorted(MS, key=len, reverse=True))
_NUMBER = re.compile(rf"(?<![\w.])(\d{{1,15}}(?:\.\d{{1,12}})?) ?({_UNITS})?(?![\w.]*\w)", re.IGNORECASE)
_BEFORE = re.compile(
    r"\b(?:(?P<said>took|in|after)|\w*(?:duration|latency|elapsed|time|rt)(?P<unit>_ms|_s|_us|_ns)?)"
    r"(?:[ :=]{1,3}\(?|\()$",
    re.IGNORECASE,
)
_TAIL = re.compile(r'(?<![\w.])(?:(?:rt|request_time|rtime|urt|D|T)=)?"?(?P<n>\d{1,12}(?:\.\d{1,9})?)"?(?![\w.])')
_GO = re.compile(r"(?:(\d{1,9})h)?(?:(\d{1,9})m(?!s))?(?:(\d{1,12}(?:\.\d{1,12})?)s)?")
_QUANTITY = re.compile(rf"(\d{{1,15}}(?:\.\d{{1,12}})?) ?({_UNITS})")


class Timing(NamedTuple):
    """One timed request."""

    ms: float
    request: str
    status: int | None


def timing_of(record: Record, unit: Unit | None) -> Timing | None:
    """Return how long the record's request took, `None` when it says nothing of it.

    Args:
        record: of any format.
        unit: what a number without a unit is in; `None` goes by the place it stands in: milliseconds, but
            seconds for nginx's `request_time` and a fraction at an access line's end, microseconds (Apache's
            `%D`) for a whole number there.
    """
    fields = record.fields
    if fields is None:
        ms = _from_text(record.message[:4096], unit)
    elif "tail" in fields:
        ms = _from_tail(str(fields["tail"]), unit)
    else:
        ms = _from_fields(fields, unit)
        if ms is None:
            ms = _from_text(record.message[:4096], unit)
    if ms is None or not 0 <= ms < 1e12:
        return None
    return Timing(ms, _request(record), status_of(fields) if fields else None)


@dataclass
class Spread:
    """A spread of durations in buckets 2 % apart, so that percentiles are within 1 % whatever the number."""

    count: int = 0
    total_ms: float = 0.0
    max_ms: float = 0.0
    _buckets: dict[int, int] = field(default_factory=dict)

    def add(self, ms: float) -> None:
        """Count one duration."""
        bucket = math.floor(math.log(max(ms, 1e-3)) / _STEP)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.total_ms += ms
        self.max_ms = max(self.max_ms, ms)

    def percentile(self, percent: float) -> float:
        """Return the duration that `percent` of them don't exceed, in ms; 0 when there are none."""
        seen, wanted = 0, max(1, math.ceil(self.count * percent / 100))
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return round(min(math.exp((bucket + 0.5) * _STEP), self.max_ms), 3)
        return 0.0


_STEP = math.log(1.02)


def _from_fields(fields: Mapping[str, Any], unit: Unit | None) -> float | None:
    for key, known in _WITH_UNIT:
        if (ms := _amount(fields.get(key), known)) is not None:
            return ms
    if (ms := _amount(dig(fields, "event.duration"), "ns")) is not None:
        return ms
    for key in _WITHOUT_UNIT:
        if (ms := _amount(fields.get(key), unit or ("s" if key in _IN_SECONDS else "ms"))) is not None:
            return ms
    return _amount(dig(fields, "httpRequest.latency"), "s")


def _amount(value: object, unit: Unit) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) * MS[unit] if abs(value) < 1e18 else None
    if not isinstance(value, str) or not value or len(value) > 40:
        return None
    if found := _QUANTITY.fullmatch(value.strip()):
        return float(found[1]) * MS[found[2]]
    if (go := _GO.fullmatch(value)) and any(go.groups()):
        return sum(float(part or 0) * scale for part, scale in zip(go.groups(), (3.6e6, 6e4, 1e3), strict=True))
    return float(value) * MS[unit] if re.fullmatch(r"\d{1,15}(?:\.\d{1,12})?", value) else None


def _from_text(text: str, unit: Unit | None) -> float | None:
    for found in _NUMBER.finditer(text):
        start, named = found.start(), found[2]
        before = _BEFORE.search(text, max(0, start - 32), start)
        if named and (before or text[start - 1 : start] == "("):
            return float(found[1]) * MS[named.lower()]
        if before and not before["said"] and text[start - 1] in ":=":
            guess = before["unit"]
            return float(found[1]) * MS[guess[1:].lower() if guess else unit or "ms"]
    return None


def _from_tail(tail: str, unit: Unit | None) -> float | None:
    if found := _TAIL.search(tail):
        guess: Unit = "s" if "." in found["n"] or found[0].startswith(("rt=", "req", "rtime", "urt", "T")) else "us"
        return float(found["n"]) * MS[unit or guess]
    return None


def _request(record: Record) -> str:
    fields = record.fields
    path = None if fields is None else text_of(first_of(fields, _PATH_KEYS))
    if fields is None or path is None:
        return record.message or record.text
    method = text_of(first_of(fields, _METHOD_KEYS))
    return f"{method} {path}" if method else path
