"""Converts values of a server's entry, as people write them, for `UpstreamConfig`, which validates them.

Each function raises `Unusable` for a value that it can't convert, or whose variables can't be filled in; one of a wrong
type may come out as it is.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar
from urllib.parse import urlsplit

from agent_utilities.gateway.upstreams.configuration.variables import REFERENCE, Reading, Unusable
from agent_utilities.settings import Quota

_T = TypeVar("_T")

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_PASSED = re.compile(r"[\x00\ud800-\udfff]")
"""NUL, and half of a surrogate pair, which an escape can spell."""
_LIKE_A_NAME = re.compile(r"(?:[A-Z][A-Z0-9_]*|[a-z]+(?:_[a-z]+)+)\Z")
_OF_OAUTH = {
    **{"clientid": "client_id", "clientsecret": "client_secret", "callbackport": "callback_port"},
    **dict.fromkeys(("scope", "scopes"), "scopes"),
    "clientmetadataurl": "client_metadata_url",
}
_OF_QUOTA = {name.replace("_", ""): name for name in Quota.model_fields}
_TRANSPORTS = {"stdio": "stdio", "local": "stdio", "sse": "sse"} | dict.fromkeys(
    ("http", "streamablehttp", "remote", "httpstream", "streamable"), "http"
)


def fold(key: str) -> str:
    """Return a key without case, `_` and `-`, which make no difference."""
    return key.replace("_", "").replace("-", "").casefold()


def _a(kind: type[_T], value: Any) -> _T:
    if not isinstance(value, kind):
        raise Unusable()
    return value


def filled(value: Any, reading: Reading) -> Any:
    """Fill in the variables of a text, or of each text in a list or an object."""
    if isinstance(value, list):
        return [filled(each, reading) if isinstance(each, str) else each for each in value]
    if isinstance(value, dict):
        return {name: filled(each, reading) if isinstance(each, str) else each for name, each in value.items()}
    if not isinstance(value, str):
        return value
    text = reading.fill(value)
    if _NOT_PASSED.search(text):
        raise Unusable("has a character that no program or address can take", "write it without that")
    return text


def words(value: Any, reading: Reading) -> Any:
    """Read a list of texts; numbers become texts."""
    return filled([str(word) if _is_number(word) else word for word in _a(list, value)], reading)


def command(value: Any, reading: Reading) -> list[str]:
    """Read a program, and the arguments that come with it."""
    program, *arguments = (words(value, reading) or [""]) if isinstance(value, list) else [filled(value, reading)]
    if not _a(str, program).strip():
        raise Unusable("is empty")
    return [f"{reading.home}{program[1:]}" if program.startswith("~/") else program, *arguments]


def path(value: Any, reading: Reading) -> str:
    """Read a path, of the project's folder or the user's."""
    text: str = filled(_a(str, value), reading)
    if not text:
        raise Unusable("is empty")
    if text == "~" or text.startswith(("~/", "~\\")):
        text = f"{reading.home}{text[1:]}"
    return str((reading.base or reading.folder) / text)


def variables(value: Any, reading: Reading) -> Any:
    """Read an object of texts; numbers and switches become texts, and null leaves a name out."""
    texts = {}
    for name, each in _a(dict, value).items():
        if isinstance(each, bool):
            texts[name] = "true" if each else "false"
        elif each is not None:
            texts[name] = str(each) if _is_number(each) else each
    return filled(texts, reading)


def own_variables(value: Any, reading: Reading) -> dict[str, str]:
    """Read names of the user's own variables, which are passed on where they are set; Codex may say where from."""
    names = [_a(str, each.get("name") if isinstance(each, dict) else each) for each in _a(list, value)]
    return {name: _own(name, reading) for name in names if name in reading.environ}


def needed_variables(value: Any, reading: Reading) -> dict[str, str]:
    """Read names of the user's own variables that a server needs; Goose has them in a keyring."""
    return {name: _own(name, reading) for name in _a(list, value)}


def _own(name: Any, reading: Reading) -> str:
    """Return the value of the user's own variable; what does not look like a name may be a secret, and is not shown."""
    if _a(str, name) not in reading.environ and not reading.keeps_references:
        named = f"the variable {name}" if _LIKE_A_NAME.match(name) else "a variable"
        raise Unusable(f"names {named}, which is not set", "set it")
    return f"${{env:{name}}}" if reading.keeps_references else str(reading.environ[name])


def headers(value: Any, reading: Reading) -> Any:
    texts = variables(value, reading)
    for name, text in texts.items():
        if isinstance(text, str) and _CONTROL.search(text):
            raise Unusable(f"{name} has a line break or another control character", "write it on one line")
    return texts


def env_headers(value: Any, reading: Reading) -> dict[str, str]:
    """Read headers, each with the name of the user's own variable that has its value; unset ones are left out."""
    texts = {}
    for header, name in _a(dict, value).items():
        try:
            texts[header] = _own(name, reading)
        except Unusable as error:
            if not error.what:  # no text
                raise
            reading.notices.append(f"{header} is left out: it {error.what}")
    return texts


def url(value: Any, reading: Reading) -> str:
    address: str = filled(_a(str, value), reading).strip()
    if reading.keeps_references and REFERENCE.search(address):
        return address
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not address.isprintable() or " " in address:
        raise Unusable("is no http:// or https:// address")
    return address


def auth(value: Any, reading: Reading) -> dict[str, Any]:
    """Read how callers authenticate at a server: `oauth`, a bearer token, or an object with settings of OAuth."""
    if not isinstance(value, str):
        return oauth(value, reading)
    token = filled(value, reading).strip()
    if not token or _CONTROL.search(token):
        raise Unusable("is no token")
    return {"auth": "oauth" if token.lower() == "oauth" else re.sub(r"(?i)\Abearer\s+", "", token)}


def oauth(value: Any, reading: Reading) -> dict[str, Any]:
    """Read whether OAuth is used, or with which client."""
    if isinstance(value, bool):
        return {"auth": "oauth" if value else None}
    settings = {fold(name): each for name, each in filled(_a(dict, value), reading).items() if each is not None}
    if settings.get("enabled") is False:
        return {"auth": None}
    client = {field: settings[key] for key, field in _OF_OAUTH.items() if key in settings}
    if isinstance(scopes := client.get("scopes"), str):
        client["scopes"] = scopes.split()
    return {"auth": "oauth", "oauth": client or None}


def some(value: Any, reading: Reading) -> Any:
    """Read a list; an empty one means all."""
    return value or None


def quota(value: Any, reading: Reading) -> dict[str, Any]:
    return {_OF_QUOTA.get(fold(name)) or name: each for name, each in _a(dict, value).items()}


def bearer_variable(value: Any, reading: Reading) -> dict[str, Any]:
    """Read the name of the user's own variable that has a token."""
    return {"auth": _own(value, reading)}


def opposite(value: Any, reading: Reading) -> Any:
    """Read a switch whose meaning is inverted."""
    return not value if isinstance(value, bool) else value


def milliseconds(value: Any, reading: Reading) -> Any:
    return value * 0.001 if _is_number(value) and value < 1e12 else value


def time(value: Any, reading: Reading) -> Any:
    """Read a time, in milliseconds from 1,000 on unless the file's host writes seconds."""
    is_ms = not reading.is_in_seconds and _is_number(value) and value >= 1000
    return milliseconds(value, reading) if is_ms else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def transport(value: Any, reading: Reading) -> str:
    return _a(str, _TRANSPORTS.get(fold(_a(str, value))))
