"""Which components their own `auth` checks admit a caller to: FastMCP's check, made before anything is decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fastmcp.exceptions import AuthorizationError
from fastmcp.server.auth import AccessToken, AuthContext, run_auth_checks
from fastmcp.server.dependencies import get_access_token

from agent_utilities.mcp.fastmcp_internals import is_over_stdio
from agent_utilities.mcp.surface.components import Component

_C = TypeVar("_C", bound=Component)


async def admitted(components: Sequence[_C]) -> Sequence[_C]:
    """Return the components whose own `auth` check admits the caller.

    FastMCP drops the others after the transforms; judged before, they count nowhere and their names stay unknown.
    """
    if is_over_stdio():
        return components
    token = get_access_token()
    return [component for component in components if component.auth is None or await _admits(component, token)]


async def _admits(component: Component, token: AccessToken | None) -> bool:
    assert component.auth is not None
    try:
        return await run_auth_checks(component.auth, AuthContext(token=token, component=component))
    except AuthorizationError:
        return False
