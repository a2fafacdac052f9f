"""Removes secrets from the URLs in web servers' log lines."""

from __future__ import annotations

import logging
import re
from urllib.parse import unquote_plus

import httpx2

from agent_utilities.selection.channels import field_of

_LOGGERS = ("uvicorn.access", "uvicorn.error", "httpx2")
_SHOWN = frozenset(("part", "format", "table", "days"))
"""Query keys of the page whose values are shown, as those of selections are; all other values may be private."""
_QUERY = re.compile(r"[?#]|%3f|%23", re.IGNORECASE)
_LINK = re.compile(r"(/logins/)(?!callback\b)[^/]+")


def hide_secrets() -> None:
    """Mask codes, states, keys and tokens in the log lines of web servers and clients."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_without_secrets)


def _without_secrets(record: logging.LogRecord) -> bool:
    """Mask the URLs of a log record; every record passes."""
    if isinstance(record.args, tuple):
        record.args = tuple(masked(str(arg)) if isinstance(arg, str | httpx2.URL) else arg for arg in record.args)
    return True


def masked(url: str) -> str:
    """Return a URL whose query shows the values of selections alone, and whose fragment shows nothing."""
    if (match := _QUERY.search(url)) is None:
        return _LINK.sub(r"\1...", url)
    path, query = _LINK.sub(r"\1...", url[: match.start()]), url[match.end() :]
    return path + match[0] + ("..." if match[0][-1] in "#3" else "&".join(map(_shown, query.split("&"))))


def _shown(pair: str) -> str:
    name, _, value = pair.partition("=")
    key = unquote_plus(name)
    is_known = key in _SHOWN or field_of(key, "query") is not None
    if is_known and not re.search(r"[;#?=]|%3[bdf]|%2[36]", value, re.IGNORECASE):
        return pair
    return f"{name}=..." if value else "..."
