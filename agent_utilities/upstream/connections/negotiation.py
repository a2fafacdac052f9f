"""Agrees with an upstream on the protocol's era, whatever it makes of a question that it does not know."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types
from mcp import ClientSession, MCPError
from mcp_types.methods import validate_server_result
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agent_utilities.upstream.http.http_client import http_trouble


async def negotiate(session: ClientSession, known_version: str | None, *, probe_s: float) -> None:
    """Agree on a protocol version, in one request where the era is known from before.

    Args:
        known_version: what was agreed on the last time; None where nothing was.
        probe_s: seconds that a probe for the newer era is waited for alone. Servers that know nothing of it may be
            silent, so the older era's handshake goes out beside the probe then. One that has only started slowly
            answers both; it is spoken to in the older era then, since many keep to a handshake that they have made.

    Raises:
        MCPError: the upstream refused both.
    """
    if known_version in HANDSHAKE_PROTOCOL_VERSIONS:
        try:
            await session.initialize()
            return
        except MCPError as error:
            if _is_final(error):
                raise
    probe = asyncio.ensure_future(_discover(session))
    try:
        await asyncio.wait([probe], timeout=probe_s)
        discovered = probe.result() if probe.done() else None
        if discovered is None:
            discovered = await _first_to_agree(probe, session, probe_s)
        if discovered is not None:
            session.adopt(discovered)
    finally:
        probe.cancel()
        await asyncio.gather(probe, return_exceptions=True)


def _is_final(error: MCPError) -> bool:
    """Whether an error is no answer to what was asked: asking something else would bring the same."""
    trouble = http_trouble(error)
    return has_ended(error) or (trouble is not None and trouble.is_final)


def has_ended(error: Exception) -> bool:
    """Whether an error says that an answer can't come any more, and not what the upstream says."""
    return is_closed(error) or (_is_of_transport(error) and str(error).startswith("SSE stream"))


def is_closed(error: Exception) -> bool:
    """Whether an error says that the whole connection has ended."""
    return _is_of_transport(error) and str(error) == "Connection closed"


def _is_of_transport(error: Exception) -> bool:
    return isinstance(error, MCPError) and error.code == mcp_types.CONNECTION_CLOSED


async def _first_to_agree(
    probe: asyncio.Future[mcp_types.DiscoverResult | None], session: ClientSession, handshake_s: float
) -> mcp_types.DiscoverResult | None:
    """Return what was discovered; None where a handshake was made, which waits that long behind the probe's answer.

    A server that has read the probe first may be of the newer era from then on, and refuse the handshake before it
    answers the probe, or after the probe was given up: so a refusal decides nothing before the probe is answered.
    """
    handshake = asyncio.ensure_future(session.initialize())
    try:
        both: list[asyncio.Future[Any]] = [probe, handshake]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not handshake.done():
            await asyncio.wait([handshake], timeout=handshake_s if probe.result() is not None else None)
        if not handshake.done():
            return probe.result()
        refusal = handshake.exception()
        if refusal is None or (isinstance(refusal, MCPError) and _is_final(refusal)):
            await handshake
            return None
        was_given_up = probe.done() and probe.result() is None
        discovered = await (_discover(session) if was_given_up else probe)
        if discovered is None:
            raise refusal
        return discovered
    finally:
        handshake.cancel()
        await asyncio.gather(handshake, return_exceptions=True)


async def _discover(session: ClientSession) -> mcp_types.DiscoverResult | None:
    """Return what the upstream tells where it knows the newer era, else None."""
    version = LATEST_MODERN_VERSION
    for _ in range(2):
        try:
            raw = await session.send_discover(version)
            validate_server_result("server/discover", version, raw)
            result = mcp_types.DiscoverResult.model_validate(raw)
        except MCPError as error:
            if _is_final(error):
                raise
            other = _newest_of_both(error)
            if other is None or other == version:
                return None
            version = other
            continue
        except (ValidationError, KeyError):
            return None
        if not any(known in result.supported_versions for known in MODERN_PROTOCOL_VERSIONS):
            return None
        return result
    return None


def _newest_of_both(error: MCPError) -> str | None:
    """Return the newest version that an upstream names which refused another; None where it names none of ours."""
    if error.code != mcp_types.UNSUPPORTED_PROTOCOL_VERSION:
        return None
    try:
        named = mcp_types.UnsupportedProtocolVersionErrorData.model_validate(error.error.data).supported
    except ValidationError:
        return None
    return next((version for version in reversed(MODERN_PROTOCOL_VERSIONS) if version in named), None)
