"""Secrets of an upstream's config, taken out of text that people read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from agent_utilities.upstream.config import UpstreamConfig

_HARMLESS = re.compile(
    r"|".join(
        (
            r".{0,3}",  # found in any text
            r"\d{1,5}",
            r"true|false|null|none|yes|disabled|enabled|default|auto",
            r"trace|debug|info|warn|warning|error|verbose|quiet|stdio|http|https|localhost|127\.0\.0\.1",
            r"production|development|test|staging|python3?|node|utf-?8",
        )
    ),
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(r"key|token|secret|passw|pwd|auth|credential|bearer|cookie|session", re.IGNORECASE)
_LOOKS_SECRET = re.compile(r"(?=[^/\\@]*\d)(?=[^/\\@]*[A-Za-z])[A-Za-z0-9_\-.+=~]{20,}")


def secrets_of(config: UpstreamConfig) -> Mapping[str, str]:
    """Return what must not be read in a log or an error, and what is put in its place.

    Every value of `env` and `headers` is taken for a secret, `auth`, user and query of `url`, and of `args` those that
    an option names as one, or that look like one; not what is too short or too common to be one, such as `debug`.
    """
    told: dict[str, str] = {}
    for name, value in _named(config):
        for line in value.splitlines():  # a log has lines, a private key has several
            if not _HARMLESS.fullmatch(line.strip()):
                told.setdefault(line.strip(), f"[{name}]")
    return told


class Redaction:
    """Takes secrets out of text.

    Args:
        secrets: what stands in the place of each.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = dict(secrets)
        longest_first = sorted(map(re.escape, self._secrets), key=len, reverse=True)
        self._pattern = re.compile("|".join(longest_first)) if longest_first else None

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        return self._pattern.sub(lambda found: self._secrets[found.group()], text) if self._pattern else text


def _named(config: UpstreamConfig) -> Iterator[tuple[str, str]]:
    """Yield what may be secret, by what it is called."""
    for name, secret in config.env.items():
        yield name, secret.get_secret_value()
    for name, secret in config.headers.items():
        value = secret.get_secret_value()
        yield f"header {name}", value
        yield f"header {name}", value.partition(" ")[2]  # what follows `Bearer`
    if config.auth is not None and config.auth.get_secret_value() != "oauth":
        yield "auth", config.auth.get_secret_value()
    yield from _of_arguments([arg.get_secret_value() for arg in config.args])
    yield from _of_url("url", config.url.get_secret_value())


def _of_arguments(arguments: list[str]) -> Iterator[tuple[str, str]]:
    before = ""
    for n, argument in enumerate(arguments, 1):
        option, is_given, value = argument.partition("=")
        if is_given and option.startswith("-"):
            name = option
        else:
            name, value = before, argument
        if _SECRET_NAME.search(name) and not value.startswith("-"):
            yield f"argument {n}", value
        elif re.fullmatch(r"[\w-]+: ?.+", value) and _SECRET_NAME.search(value.partition(":")[0]):  # a header
            header = value.partition(":")[2].strip()
            yield f"argument {n}", header
            yield f"argument {n}", header.partition(" ")[2]
        elif "://" in value:
            yield from _of_url(f"argument {n}", value)
        elif _LOOKS_SECRET.fullmatch(value):
            yield f"argument {n}", value
        before = argument if argument.startswith("-") and not is_given else ""


def _of_url(name: str, url: str) -> Iterator[tuple[str, str]]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    for value in (parts.password, parts.username):
        if value:
            yield name, value
            yield name, unquote(value)
    for key, value in parse_qsl(parts.query):
        if _SECRET_NAME.search(key) or _LOOKS_SECRET.fullmatch(value):
            yield name, value
    for value in parts.path.split("/"):
        if _LOOKS_SECRET.fullmatch(value):
            yield name, value
