"""Servers that the tests of the host share, and how a caller of one is made without a socket."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.http import StarletteWithLifespan

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.seam.events import ToolsChanged


async def said_at_start(server: AgentServer, capsys: pytest.CaptureFixture[str], level: str | None = None) -> list[str]:
    """Return the lines that a server says when it starts in a process of its own."""
    server.greeting.is_ours = True
    await server.operator_bounds.judge()
    await server.greeting.say(level)
    return capsys.readouterr().err.splitlines()


def log_server(**options: Any) -> AgentServer:
    """A server with two tools that read, two that write, and one of every other kind of component."""
    environ = {"MCP_GRAPH": "off", **options.pop("environ", {})}
    mcp = create_mcp_server("logs", environ=environ, **options)

    @mcp.tool(tags={"logs", "read"}, annotations={"readOnlyHint": True})
    def tail_log(path: str = "app.log") -> str:
        """Show the last lines of a log."""
        return f"tail of {path}"

    @mcp.tool(tags={"logs", "read"}, annotations={"readOnlyHint": True})
    def search_logs(text: str = "") -> str:
        """Find lines."""
        return f"lines with {text}"

    @mcp.tool(tags={"logs", "write"})
    def rotate_log(path: str = "app.log") -> str:
        """Start a new file."""
        return "rotated"

    @mcp.tool(tags={"logs", "write", "delete"})
    def delete_log(path: str = "app.log") -> str:
        """Remove a log."""
        return "deleted"

    @mcp.prompt(tags={"read"})
    def triage() -> str:
        """How to look at an incident."""
        return "look"

    @mcp.prompt(tags={"write"})
    def cleanup() -> str:
        """How to free space."""
        return "clean"

    @mcp.resource("log://status", tags={"read"})
    def status() -> str:
        return "fine"

    @mcp.resource("log://keys", tags={"write"})
    def keys() -> str:
        return "secret"

    @mcp.resource("log://{name}", tags={"read"})
    def by_name(name: str) -> str:
        return f"by name: {name}"

    return mcp


def over_http(
    server: AgentServer, *, url: str = "/mcp", headers: dict[str, str] | None = None, mode: str = "auto"
) -> tuple[StarletteWithLifespan, Client[StreamableHttpTransport]]:
    """A client over the server's real ASGI application, with no socket between; the app's lifespan is the test's."""
    app = server.http_app(host_origin_protection=False)

    def factory(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **options: Any,
    ) -> httpx2.AsyncClient:
        in_process = httpx2.ASGITransport(app=app)
        return httpx2.AsyncClient(transport=in_process, headers=headers, timeout=timeout, auth=auth, **options)

    transport = StreamableHttpTransport(f"http://127.0.0.1{url}", headers=headers, httpx_client_factory=factory)
    return app, Client(transport, mode=mode)


@contextmanager
def running(server: AgentServer) -> Iterator[str]:
    """Serve over HTTP on a free port of this machine for a block; yields the base URL."""
    started = threading.Event()

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    serving = Announced(uvicorn.Config(server.http_app(), port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=serving.run)
    thread.start()
    try:
        assert started.wait(60), "the server did not start"
        yield f"http://127.0.0.1:{serving.servers[0].sockets[0].getsockname()[1]}"
    finally:
        serving.should_exit = True
        thread.join()


async def tool_names(client: Client[Any]) -> list[str]:
    return [tool.name for tool in await client.list_tools()]


def when_tools_change(server: AgentServer, call: Callable[[], None]) -> None:
    """Have something called whenever the server's tools have changed, whoever may use them."""

    server.features.observe(lambda _: call(), ToolsChanged)
