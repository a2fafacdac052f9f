"""Which transport reaches an upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_utilities.upstream.config import Transport, UpstreamConfig
from agent_utilities.upstream.limits import Unfinished

if TYPE_CHECKING:
    import httpx2
    from fastmcp.client.transports import ClientTransport

    from agent_utilities.upstream.processes.process_guard import ProcessGuard
    from agent_utilities.upstream.processes.stderr_log import StderrLog


_MODULES: Mapping[Transport, str] = {"stdio": "processes.stdio", "http": "http.streamable_http", "sse": "http.sse"}


def module_of(config: UpstreamConfig) -> str:
    """Return the module that reaches the upstream."""
    return f"agent_utilities.upstream.{_MODULES[config.transport]}"


def transport_of(
    config: UpstreamConfig,
    *,
    environ: Mapping[str, str],
    stderr: StderrLog,
    guard: ProcessGuard,
    unfinished: Unfinished | None = None,
) -> ClientTransport:
    """Return a transport that reaches the upstream; it is used for one connection.

    Args:
        config: the upstream's.
        environ: the user's environment, of which a stdio upstream gets a small safe set.
        stderr: takes what a stdio upstream writes to stderr.
        guard: ends its processes where the gateway can't.
        unfinished: counts what has begun to come on all connections of the upstream.
    """
    unfinished = unfinished or Unfinished()
    if config.transport == "stdio":
        from agent_utilities.upstream.processes.stdio import StdioUpstream

        return StdioUpstream(config, environ=environ, stderr=stderr, guard=guard, unfinished=unfinished)
    url, auth = config.url.get_secret_value(), _auth(config, environ)
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    if config.transport == "sse":
        from agent_utilities.upstream.http.sse import SseUpstream

        return SseUpstream(url, headers=headers, auth=auth, limits=config.limits, unfinished=unfinished)
    from agent_utilities.upstream.http.streamable_http import HttpUpstream

    return HttpUpstream(url, headers=headers, auth=auth, limits=config.limits, unfinished=unfinished)


def _auth(config: UpstreamConfig, environ: Mapping[str, str]) -> str | httpx2.Auth | None:
    """Return what the transport shows of us: a bearer token, or the user's login."""
    from agent_utilities.settings import read_settings
    from agent_utilities.upstream.http.login import login_of

    login = login_of(config, read_settings(environ).gateway_folder)
    return login or (config.auth.get_secret_value() if config.auth is not None else None)
