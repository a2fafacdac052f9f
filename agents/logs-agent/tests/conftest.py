"""A folder of logs the server may look into, and a client that calls its tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
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


@pytest.fixture(scope="session")
def call() -> Iterator[Call]:
    """Call a tool through the in-memory client and return its structured result.

    One connection serves the whole session, for making one takes longer than most calls.
    """
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(mcp)) as client:

        def run(tool: str, **arguments: Any) -> dict[str, Any]:
            result = portal.call(client.call_tool, tool, arguments)
            assert result.structured_content is not None
            return dict(result.structured_content)

        yield run


@pytest.fixture
def refusal(call: Call) -> Callable[..., str]:
    """Call a tool that must refuse, and return its message."""

    def run(tool: str, **arguments: Any) -> str:
        with pytest.raises(ToolError) as caught:
            call(tool, **arguments)
        return str(caught.value)

    return run
