"""A server that wants a login by OAuth and lets anybody in: `python -m tests.gateway.upstreams.oauth_server PORT`."""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider
from mcp.server.auth.settings import ClientRegistrationOptions


def make(port: int) -> FastMCP:
    """Return the server, which is to be served on a loopback port."""
    registration = ClientRegistrationOptions(enabled=True)
    auth = InMemoryOAuthProvider(base_url=f"http://127.0.0.1:{port}", client_registration_options=registration)
    server = FastMCP("secretive", auth=auth)

    @server.tool
    def secret() -> str:
        return "told"

    return server


if __name__ == "__main__":
    PORT = int(sys.argv[1])
    make(PORT).run("http", host="127.0.0.1", port=PORT, show_banner=False, log_level="info")
