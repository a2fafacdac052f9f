"""The secrets in an upstream's config, and texts with them hidden.

Every value of a config is wrapped as a secret, `en_US` and `/home/me/notes` too. Hiding those as well would mutilate
upstreams' texts, so a value counts as a secret by its name (`API_KEY`), or by its form: anything but plain words, short
numbers, versions and paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from agent_utilities.runtime.issued_tokens import ISSUED

if TYPE_CHECKING:
    from agent_utilities.gateway.upstreams.config import UpstreamConfig
    from agent_utilities.gateway.upstreams.snapshot import Snapshot

HIDDEN = "[hidden]"
"""The replacement of a secret."""

_NAMED = re.compile(
    r"(?i)(key|token|secret|passw(or)?d|passphrase|pwd|credentials?|auth(orization)?|cookie|bearer|basic|_pat|dsn|jwt|signature|webhook)s?$"
)
_PATH = re.compile(r"(?i)(\.{0,2}/|~|@[\w.-]+/|[a-z]:[\\/]|file:)")
_SEPARATORS = re.compile(r"[\s;,&=:\"'{}\[\]()<>?|@/\\#]+")
_WORD_SEPARATORS = re.compile(r"[-_.@+*%~^!$`]+")
_PLAIN_PART = re.compile(r"[^\W\d_]{0,16}|[a-z]{0,24}|\w{0,4}")
_IDENTITY = ("name", "uri", "uriTemplate")
_SHORTEST, _SHORTEST_WORD, _SHORTEST_OF_A_PATH = 5, 6, 16


def secrets_of(config: UpstreamConfig) -> tuple[str, ...]:
    """Return the secrets of a config, in every spelling that an upstream may repeat them in, longest first."""
    values = [(name, value.get_secret_value()) for name, value in (*config.env.items(), *config.headers.items())]
    if config.auth is not None and config.auth.get_secret_value() != "oauth":
        values.append(("auth", config.auth.get_secret_value()))
    if config.oauth is not None and config.oauth.client_secret is not None:
        values.append(("secret", config.oauth.client_secret.get_secret_value()))
    words = ["", *(arg.get_secret_value() for arg in config.args)]
    values += [(before if before.startswith("-") else "", word) for before, word in pairwise(words)]
    values.append(("", config.url.get_secret_value()))
    secrets = {secret for name, value in values for secret in _secrets_in(value, is_named=_is_named(name))}
    secrets.update([quote(secret, safe="") for secret in secrets])
    return tuple(sorted(secrets, key=lambda secret: (-len(secret), secret)))


def without(secrets: Sequence[str], text: str) -> str:
    """Return a text with each secret replaced by `[hidden]`."""
    return re.sub("|".join(map(re.escape, secrets)), HIDDEN, text) if secrets else text


def without_secrets(snapshot: Snapshot, secrets: Sequence[str]) -> Snapshot:
    """Return a snapshot without any of the secrets of `secrets_of`; the same one where it has none.

    In descriptions, instructions and schemas a secret is hidden. A component with a secret in its name or address is
    left out, since it can't be renamed, and `problems` says so.
    """
    if not secrets:
        return snapshot
    pattern = re.compile("|".join(map(re.escape, secrets)))
    content = snapshot.model_dump(mode="json", by_alias=True, exclude_unset=True)
    kept: dict[str, Any] = {**content, "problems": list(snapshot.problems)}
    for kind in ("tools", "prompts", "resources", "templates", "skills"):
        components = content.get(kind, [])
        kept[kind] = [
            each for each in components if not any(pattern.search(str(each.get(key, ""))) for key in _IDENTITY)
        ]
        if n_left_out := len(components) - len(kept[kind]):
            problem = f"{n_left_out} of {kind} left out: a secret of the config stands in its name or address"
            kept["problems"].append(problem)
    own = {"upstream": snapshot.upstream, "config_digest": snapshot.config_digest}
    cleaned = {key: _cleaned(value, pattern) for key, value in kept.items()} | own
    if all(cleaned[key] == value for key, value in content.items()):
        return snapshot
    return type(snapshot).model_validate(cleaned)


def _secrets_in(value: str, *, is_named: bool) -> Iterator[str]:
    """Yield the secrets in a value: all of it, and each part that might appear alone."""
    if "://" in value:
        yield from _secrets_of_url(value)
        return
    if _PATH.match(value) and not is_named:
        yield from _secrets_of_path(value)
        return
    pieces = [piece for piece in _SEPARATORS.split(value) if piece]
    parts = [piece for piece in pieces if not _is_plain(piece)]
    for name, piece in pairwise(pieces):  # secret by the piece before, as in `Authorization: Bearer abcdefgh`
        parts += [piece] * (_is_named(name) and len(piece) >= _SHORTEST_WORD and not _is_named(piece))
    if is_named and len(pieces) == 1 and len(value) >= _SHORTEST_WORD:
        parts.append(pieces[0])
    yield from (part for part in parts if len(part) >= _SHORTEST)
    if len(value) >= _SHORTEST and (parts or (is_named and len(value) >= _SHORTEST_WORD)):
        yield value


def _secrets_of_url(value: str) -> Iterator[str]:
    """Yield the password, the secret parameters and the random parts of each address in a value."""
    for address in re.findall(r"[a-zA-Z][\w+.-]*://[^\s\"'<>]+", value):
        try:
            parts = urlsplit(address)
            user, password, _ = parts.username, parts.password, parts.port  # invalid where the password has a /
        except ValueError:
            yield value
            continue
        for text, is_named in ((user, False), (password, True)):
            if text:
                yield from _secrets_in(unquote(text), is_named=is_named)
        for pair in re.split("[&;]", f"{parts.query}&{parts.fragment}"):
            name, _, text = pair.rpartition("=")
            yield from _secrets_in(unquote(text), is_named=_is_named(name))
        yield from _secrets_of_path(unquote(parts.path))
        yield from _secrets_of_path((parts.hostname or "").replace(".", "/"))


def _secrets_of_path(path: str) -> Iterator[str]:
    """Yield the parts of a path that look like secrets, as in a webhook's address."""
    for part in re.split(r"[/\\]", path):
        if len(part) >= _SHORTEST_OF_A_PATH and not _is_plain(part):
            yield part


def _is_named(name: str) -> bool:
    """Whether values of a name are secret."""
    return _NAMED.search(name) is not None


def _is_plain(piece: str) -> bool:
    """Whether a piece reads as words, short numbers or a version, such as `us-east-1` or `gpt-4o`."""
    return not ISSUED.search(piece) and all(_PLAIN_PART.fullmatch(part) for part in _WORD_SEPARATORS.split(piece))


def _cleaned(value: Any, pattern: re.Pattern[str]) -> Any:
    """Return JSON with matches hidden, in keys too."""
    if isinstance(value, str):
        return pattern.sub(HIDDEN, value)
    if isinstance(value, dict):
        return {pattern.sub(HIDDEN, key): _cleaned(inner, pattern) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(inner, pattern) for inner in value]
    return value
