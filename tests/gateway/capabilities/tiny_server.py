"""An MCP server over stdio that starts in no time: `python tiny_server.py NAME TOOL...`; each tool answers its name.

On Python's standard library alone: tests start dozens of them, and count their processes.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def answer(name: str, tools: list[str], method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None for a method that there is not."""
    match method:
        case "initialize":
            version = params.get("protocolVersion")
            return {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": name, "version": "1"},
            }
        case "ping":
            return {}
        case "tools/list":
            schema = {"type": "object", "properties": {"fail": {"type": "boolean"}}}
            return {"tools": [{"name": each, "description": f"Do {each}", "inputSchema": schema} for each in tools]}
        case "tools/call":
            is_error = bool(params.get("arguments", {}).get("fail"))
            return {"content": [{"type": "text", "text": params["name"]}], "isError": is_error}
    return None


def main() -> None:
    """Serve until stdin ends."""
    name, *tools = sys.argv[1:]
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(name, tools, request["method"], request.get("params") or {})
        outcome = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)


if __name__ == "__main__":
    main()
