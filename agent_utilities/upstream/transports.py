"""Which transport reaches an upstream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent_utilities.upstream.config import UpstreamConfig

if TYPE_CHECKING:
    from fastmcp.client.transports import ClientTransport


def transport_of(config: UpstreamConfig, environ: Mapping[str, str]) -> ClientTransport:
    """Return a transport that reaches the upstream; it is used for one connection.

    Args:
        config: the upstream's.
        environ: the user's environment, of which a stdio upstream gets a small safe set.
    """
    if config.transport == "stdio":
        return _stdio(config, environ)
    url, auth = config.url.get_secret_value(), config.auth.get_secret_value() if config.auth else None
    headers = {name: value.get_secret_value() for name, value in config.headers.items()}
    if config.transport == "sse":
        from fastmcp.client.transports import SSETransport

        return SSETransport(url, headers=headers, auth=auth)
    from fastmcp.client.transports import StreamableHttpTransport

    return StreamableHttpTransport(url, headers=headers, auth=auth)


def _stdio(config: UpstreamConfig, environ: Mapping[str, str]) -> ClientTransport:
    from fastmcp.client.transports import StdioTransport

    env = {name: environ[name] for name in ("PATH", "HOME") if name in environ}
    env |= {name: value.get_secret_value() for name, value in config.env.items()}
    args = [arg.get_secret_value() for arg in config.args]
    return StdioTransport(config.command, args, env=env, cwd=config.cwd, keep_alive=False)
