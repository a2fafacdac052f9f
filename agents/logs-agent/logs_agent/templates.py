"""Message templates: what is left of a message when its particulars are taken out."""

from __future__ import annotations

import re

from logs_agent.records import Record

MAX_TEMPLATE_CHARS = 300

_QUOTED = re.compile(r""""[^"]*"|(?<!\w)'[^']*'(?!\w)""")
_TELLING = re.compile(r"[\d@]")
"""A word without any of these bears no particular."""

_PARTICULAR = re.compile(
    r"(?P<uuid>\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b)"
    r"|(?P<time>\b\d{4}-\d\d-\d\d(?:[T_]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?\b"
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b)"
    r"|(?P<email>[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{1,63})"
    r"|(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}:?[0-9a-fA-F]{1,4}\b)"
    r"|(?P<hex>\b0x[0-9a-fA-F]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b"
    r"|\b(?=[A-F]*\d)(?=\d*[A-F])[0-9A-F]{8,}\b)"
    r"|(?P<id>\b(?=[A-Za-z_]*\d)(?=\d*[A-Za-z_])\w{16,}\b)"
    r"|(?P<num>(?<![\w.])[-+]?\d+(?:[.,]\d+)*|\d+)"
)


def template_of(message: str) -> str:
    """Return the message with quoted text, ids, addresses, times, numbers as `<text>`, `<num>` etc."""
    line = message.split("\n", 1)[0][: 2 * MAX_TEMPLATE_CHARS]
    if '"' in line or "'" in line:
        line = _QUOTED.sub("<text>", line)
    words = [_PARTICULAR.sub(_name, word) if _TELLING.search(word) else word for word in line.split()]
    return " ".join(words)[:MAX_TEMPLATE_CHARS]


def template_of_record(record: Record) -> str:
    """Return the template of a record: its message's, and that of the exception its stack trace names."""
    message = template_of(record.message) or template_of(record.text)
    raised = record.raised
    return f"{message} | {template_of(raised)}"[:MAX_TEMPLATE_CHARS] if raised else message


def _name(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"
