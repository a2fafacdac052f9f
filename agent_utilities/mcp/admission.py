"""Which components their own `auth` checks admit a caller to: FastMCP's check, made before anything is decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from fastmcp.exceptions import AuthorizationError
from fastmcp.server.auth import AccessToken, AuthContext, run_auth_checks
from fastmcp.server.context import _current_transport
from fastmcp.server.dependencies import get_access_token

from agent_utilities.mcp.components import Component

_C = TypeVar("_C", bound=Component)


async def admitted(components: Sequence[_C]) -> Sequence[_C]:
    """Return the components whose own `auth` check admits the caller.

    FastMCP drops the others after the transforms; judged before, they count nowhere and their names stay unknown.
    """
    if _current_transport.get() == "stdio":
        return components
    token = get_access_token()
    return [each for each in components if each.auth is None or await _admits(each, token)]


async def _admits(component: Component, token: AccessToken | None) -> bool:
    assert component.auth is not None
    try:
        return await run_auth_checks(component.auth, AuthContext(token=token, component=component))
    except AuthorizationError:
        return False


@contextmanager
def unchecked() -> Iterator[None]:
    """List within as the one who launched the server, over stdio, would: past every component's own `auth` check."""
    token = _current_transport.set("stdio")
    try:
        yield
    finally:
        _current_transport.reset(token)
