"""What stands beside the gateway, each a process of its own.

    gateway_process.py bare TOOLS.json        bare FastMCP that has the tools itself
    gateway_process.py kept TOOLS.json CONFIG.json
                                              the same, but that the echo is the upstream's, called on a kept connection
    gateway_process.py proxy CONFIG.json      FastMCP's create_proxy; `proxy-legacy` with mode="legacy"
    gateway_process.py upstream N             an upstream of N tools that costs next to nothing: lines of JSON on stdio

All but the last serve stdio, or HTTP on a port of their own choice with `--http` at the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ECHO = "everything_echo"
N_WORDS = 12
"""How many words describe a tool of `upstream`."""


def bare(definitions: list[dict[str, Any]], lifespan: Any = None) -> Any:
    """Return bare FastMCP with tools of given definitions; the echo is a function like anybody's."""
    import mcp_types
    from fastmcp import FastMCP
    from fastmcp.tools import Tool
    from fastmcp.tools.base import ToolResult

    class Defined(Tool):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            """Answer as the echo does."""
            return ToolResult(content=[mcp_types.TextContent(type="text", text=f"Echo: {arguments.get('message')}")])

    server: Any = FastMCP("bare", lifespan=lifespan)

    def echo(message: str) -> str:
        return f"Echo: {message}"

    for definition in definitions:
        named = {"name": definition["name"], "description": definition.get("description")}
        if definition["name"].endswith("_echo"):
            server.tool(echo, output_schema=None, **named)
            continue
        schema = definition.get("outputSchema")
        hints = definition.get("annotations")
        given = {"parameters": definition["inputSchema"], "output_schema": schema, "annotations": hints}
        server.add_tool(Defined(**named, title=definition.get("title"), **given))
    return server


def kept(definitions: list[dict[str, Any]], upstream: Mapping[str, Any]) -> Any:
    """Return bare FastMCP whose echo calls the upstream's through the SDK's client: the least that a gateway does."""
    from fastmcp.tools import Tool
    from fastmcp.tools.base import ToolResult
    from mcp import ClientSession, StdioServerParameters, stdio_client

    sessions: list[ClientSession] = []

    @asynccontextmanager
    async def connected(_: Any) -> AsyncIterator[None]:
        parameters = StdioServerParameters(**{key: upstream[key] for key in ("command", "args", "env")})
        async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
            await session.initialize()
            sessions.append(session)
            yield

    class Forwarded(Tool):
        async def run(self, arguments: dict[str, Any]) -> ToolResult:
            """Answer with what the upstream answers."""
            result = await sessions[0].call_tool("echo", arguments)
            return ToolResult(content=list(result.content), structured_content=result.structured_content)

    server = bare([each for each in definitions if each["name"] != ECHO], connected)
    parameters = {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]}
    server.add_tool(Forwarded(name=ECHO, description="Echoes back the input string", parameters=parameters))
    return server


def proxy(config: dict[str, Any], mode: str | None) -> Any:
    """Return FastMCP's own gateway."""
    from fastmcp.server import create_proxy

    return create_proxy(config, mode=mode)


def upstream(n_tools: int) -> None:
    """Answer lines of JSON on stdin until they end, as quickly as Python can."""
    properties = {"path": {"type": "string"}, "limit": {"type": "integer"}, "deep": {"type": "boolean"}}
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    words = " ".join(f"word{i}" for i in range(N_WORDS))
    tools = [
        {
            "name": f"read_record_{i}",
            "description": f"Return the records of collection {i}: {words}.",
            "inputSchema": schema,
        }
        for i in range(n_tools)
    ]
    info = {"name": "many", "version": "1"}
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        method, answer = request["method"], {"jsonrpc": "2.0", "id": request["id"]}
        if method == "initialize":
            version = request["params"]["protocolVersion"]
            answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        elif method == "tools/list":
            answer["result"] = {"tools": tools}
        elif method == "tools/call":
            answer["result"] = {"content": [{"type": "text", "text": request["params"]["arguments"]["path"]}]}
        elif method == "ping":
            answer["result"] = {}
        else:
            answer["error"] = {"code": -32601, "message": f"no method {method}"}
        print(json.dumps(answer), flush=True)


def main(kind: str, *given: str) -> None:
    """Serve what the first argument names, until ended."""
    if kind == "upstream":
        return upstream(int(given[0]))
    read = json.loads(Path(given[0]).read_text(encoding="utf-8"))
    if kind == "bare":
        server = bare(read)
    elif kind == "kept":
        config = json.loads(Path(given[1]).read_text(encoding="utf-8"))
        server = kept(read, config["mcpServers"]["everything"])
    else:
        server = proxy(read, "legacy" if kind == "proxy-legacy" else None)
    if given[-1] == "--http":
        server.run(transport="http", host="127.0.0.1", port=0, show_banner=False)
    else:
        server.run(transport="stdio", show_banner=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
