"""Background tasks, for tests marked `tasks`: their extension, which not every FastMCP has, and its messages."""

from __future__ import annotations

from typing import Any

import httpx2

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
}


def tasks_extension() -> Any:
    """Return the extension that runs tools in the background, from the package `fastmcp-tasks`."""
    from fastmcp_tasks.extension import TasksExtension

    return TasksExtension()


async def ask(web: httpx2.AsyncClient, method: str, params: dict[str, Any], url: str = "/mcp") -> tuple[int, Any]:
    """Return the status and the body of the answer to a message of a caller who takes tasks."""
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        "mcp-name": params.get("name") or params["taskId"],
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    answer = await web.post(url, json=body, headers=headers)
    return answer.status_code, answer.json()
