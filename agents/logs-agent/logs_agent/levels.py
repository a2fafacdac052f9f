"""The six levels every log is read into, and the many spellings they come in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Level = Literal["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
"""A known level, least severe first."""

LEVELS: tuple[Level, ...] = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
RANK: dict[str | None, int] = {None: -1} | {level: rank for rank, level in enumerate(LEVELS)}

UNKNOWN = "UNKNOWN"
"""What records that name no level are counted under."""

SPELLINGS: dict[str, Level] = {
    "TRACE": "TRACE", "VERBOSE": "TRACE", "FINEST": "TRACE", "FINER": "TRACE",
    "DEBUG": "DEBUG", "DBG": "DEBUG", "FINE": "DEBUG",
    "INFORMATION": "INFO", "INFO": "INFO", "NOTICE": "INFO",
    "WARNING": "WARNING", "WARN": "WARNING", "WRN": "WARNING",
    "ERROR": "ERROR", "ERR": "ERROR", "SEVERE": "ERROR",
    "CRITICAL": "CRITICAL", "CRIT": "CRITICAL", "FATAL": "CRITICAL", "EMERGENCY": "CRITICAL",
    "EMERG": "CRITICAL", "ALERT": "CRITICAL", "PANIC": "CRITICAL",
}  # fmt: skip
WORDS = "|".join(SPELLINGS)
"""A regex alternation of every spelling, longer ones before their beginnings."""

_SYSLOG: tuple[Level, ...] = ("CRITICAL", "CRITICAL", "CRITICAL", "ERROR", "WARNING", "INFO", "INFO", "DEBUG")


def level_of(value: object) -> Level | None:
    """Return the level a word or number stands for, `None` when it stands for none.

    Numbers up to 7 are syslog severities; from 10 on they're the pino and bunyan scale (30 is INFO).
    """
    if isinstance(value, str):
        known = SPELLINGS.get(value.strip().upper())
        if known is None and value.strip().isascii() and value.strip().isdigit() and len(value.strip()) <= 2:
            return level_of(int(value))
        return known
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 100:
        return severity(value) if value < 8 else LEVELS[max(0, min(value // 10, 6) - 1)]
    return None


def severity(number: int) -> Level:
    """Return the level of a syslog severity, 0 (emergency) to 7 (debug)."""
    return _SYSLOG[number & 7]


def level_of_status(status: int | None) -> Level | None:
    """Return the level of an HTTP status: 5xx ERROR, 4xx WARNING, others INFO."""
    if status is None:
        return None
    return "ERROR" if status >= 500 else "WARNING" if status >= 400 else "INFO"


def most_severe_first(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts of the levels that occur, most severe first and UNKNOWN last."""
    return {level: counts[level] for level in (*reversed(LEVELS), UNKNOWN) if counts.get(level)}
