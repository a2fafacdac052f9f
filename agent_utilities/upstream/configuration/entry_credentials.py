"""Credentials in a server's entry: headers, bearer tokens and OAuth."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_utilities.upstream.config import OAuthClient
from agent_utilities.upstream.configuration.config_keys import fold
from agent_utilities.upstream.configuration.entry_reading import Reading, Unusable
from agent_utilities.upstream.configuration.shown import shown

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NOT_HANDED_ON = re.compile(r"progressToken\Z|io\.modelcontextprotocol/|agent-utilities/|.*\*")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def read_headers(value: object, reading: Reading) -> dict[str, str]:
    """Return headers by name."""
    values = reading.scalars(value, 'an object of texts, such as {"Authorization": "Bearer ${TOKEN}"}')
    for name, text in values.items():
        if not _HEADER_NAME.match(name):
            raise Unusable(f"{shown(name)!r} can't be a header's name", "write letters, digits and dashes")
        if _CONTROL.search(text):
            raise Unusable(f"{name} has a line break or another control character", "write it on one line")
    if len({name.lower() for name in values}) < len(values):
        raise Unusable("has a header twice, in capitals and without", "leave one out")
    return values


def read_header_names(value: object, reading: Reading) -> tuple[str, ...]:
    """Return names of headers, folded, each once."""
    names = reading.names(value)
    if bad := next((name for name in names if not _HEADER_NAME.match(name) or "*" in name), None):
        raise Unusable(f"{shown(bad)!r} can't be a header's name", "name each header in full")
    return tuple(dict.fromkeys(name.lower() for name in names))


def read_meta_keys(value: object, reading: Reading) -> tuple[str, ...]:
    """Return keys of `_meta`, each once; those of the protocol and of the gateway are between it and its callers."""
    keys = reading.names(value)
    if bad := next((key for key in keys if _NOT_HANDED_ON.match(key)), None):
        hint = 'name each key of your own in full, such as "example.com/user"'
        raise Unusable(f"{shown(bad)!r} is no key that can be handed on", hint)
    return tuple(dict.fromkeys(keys))


@dataclass(frozen=True, slots=True)
class Auth:
    """How a server is told who calls: a bearer token, or OAuth.

    Args:
        token: `oauth`, or the token; None for no credential.
        client: what OAuth is told of us; None where it finds out.
    """

    token: str | None
    client: OAuthClient | None = None


def read_auth(value: object, reading: Reading) -> Auth:
    """Return the credential that `auth` names."""
    expected = '"oauth", a bearer token such as "${TOKEN}", or an object with "clientId"'
    if isinstance(value, dict):
        return read_oauth(value, reading)
    token = reading.text(value, expected).strip()
    if not token or _CONTROL.search(token):
        raise Unusable("is no token", f"write {expected}")
    is_oauth = token.lower() == "oauth"
    return Auth("oauth" if is_oauth else re.sub(r"(?i)\Abearer\s+", "", token))


def read_oauth(value: object, reading: Reading) -> Auth:
    """Return what `oauth` says."""
    expected = 'true, or an object such as {"clientId": "…", "scopes": ["read"]}'
    if isinstance(value, bool):
        return Auth("oauth" if value else None)
    given = {fold(name): told for name, told in reading.objects(value, expected).items()}
    if given.get("enabled") is False:
        return Auth(None)
    scopes, port = given.get("scopes", given.get("scope")), given.get("callbackport")
    texts = {name: reading.text(given[name]) for name in ("clientid", "clientsecret") if given.get(name) is not None}
    if isinstance(scopes, str):
        scopes = scopes.split()
    if port is not None and (isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65536):
        raise Unusable("has a callbackPort that is no port", "write one of 1 to 65535")
    client = OAuthClient(
        client_id=texts.get("clientid"),
        client_secret=texts.get("clientsecret"),
        scopes=() if scopes is None else reading.names(scopes),
        callback_port=port,
    )
    return Auth("oauth", None if client == OAuthClient() else client)


def read_bearer_variable(value: object, reading: Reading) -> Auth:
    """Return the bearer token that a variable has."""
    if not isinstance(value, str) or not value:
        raise reading.wrong(value, "the name of a variable")
    return Auth(reading.variables.fill(f"${{env:{value}}}"))
