"""A folder of logs the server may look into, and a client that calls its tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.exceptions import ToolError

from logs_agent.server import mcp

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only allowed root, empty; a folder beside it is outside."""
    root = tmp_path / "logs"
    root.mkdir()
    (tmp_path / "outside").mkdir()
    monkeypatch.setenv("LOGS_AGENT_ROOTS", str(root))
    return root


@pytest.fixture
def call() -> Call:
    """Call a tool through the in-memory client and return its structured result."""

    def run(tool: str, **arguments: Any) -> dict[str, Any]:
        async def once() -> dict[str, Any]:
            async with Client(mcp) as client:
                result = await client.call_tool(tool, arguments)
                assert result.structured_content is not None
                return dict(result.structured_content)

        return anyio.run(once)

    return run


@pytest.fixture
def refusal(call: Call) -> Callable[..., str]:
    """Call a tool that must refuse, and return its message."""

    def run(tool: str, **arguments: Any) -> str:
        with pytest.raises(ToolError) as caught:
            call(tool, **arguments)
        return str(caught.value)

    return run
