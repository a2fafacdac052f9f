"""A server over a directory made for the test, called by a real in-memory client."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastmcp import Client

from agent_utilities import create_mcp_server
from filesystem_agent.registration import register
from filesystem_agent.settings import Settings
from filesystem_agent.workspace import Workspace

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The allowed directory."""
    path = tmp_path / "inside"
    path.mkdir()
    path.chmod(0o755)
    return path


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory beside the root, which no tool may touch."""
    path = tmp_path / "outside"
    path.mkdir()
    (path / "secret.txt").write_text("SECRET\n")
    return path


class Exchangeable:
    """Stands where a server expects its workspace and forwards to the one of the running test.

    One server and one client connection serve the whole session, for making them takes longer than most tests.
    """

    current: Workspace

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)


@pytest.fixture(scope="session")
def connection() -> Iterator[tuple[Exchangeable, BlockingPortal, Client[Any]]]:
    """A server with all tools, and a client connected to it in memory on an event loop of its own."""
    workspace = Exchangeable()
    mcp = create_mcp_server("filesystem-agent")
    register(mcp, workspace)  # type: ignore[arg-type]
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(mcp)) as client,
    ):
        yield workspace, portal, client


@pytest.fixture
def make_call(
    connection: tuple[Exchangeable, BlockingPortal, Client[Any]],
) -> Iterator[Callable[..., Call]]:
    """Return a maker of callers: `make_call(roots=…, max_entries=…)(tool, **arguments) -> structured result`."""
    exchangeable, portal, client = connection
    workspaces: list[Workspace] = []

    def make(**settings: Any) -> Call:
        workspace = Workspace(Settings(**settings))
        workspaces.append(workspace)

        def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
            exchangeable.current = workspace
            result = portal.call(client.call_tool, tool, arguments)
            assert result.structured_content is not None
            return result.structured_content

        return call

    yield make
    for workspace in workspaces:
        workspace.close()


@pytest.fixture
def call(make_call: Callable[..., Call], root: Path) -> Call:
    """Call a tool of a server confined to `root`."""
    return make_call(roots=(root,))


@pytest.fixture
def workspace(root: Path) -> Iterator[Workspace]:
    """The workspace of `root`, for what is tested below the tools."""
    workspace = Workspace(Settings(roots=(root,)))
    assert [opened.path for opened in workspace.roots] == [str(root.resolve())]
    yield workspace
    workspace.close()


@pytest.fixture
def unprivileged() -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which this thread's file access is that of an ordinary user, even if we are root."""

    @contextmanager
    def context() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        libc = ctypes.CDLL(None)
        libc.setfsuid(65534)
        try:
            yield
        finally:
            libc.setfsuid(0)

    return context


def snapshot(directory: Path) -> dict[str, tuple[Any, ...]]:
    """Return everything about a tree that a write could change."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in (directory, *sorted(directory.rglob("*"))):
        state = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path)] = (state.st_ino, state.st_mode, state.st_mtime_ns, state.st_nlink, content)
    return found


@pytest.fixture
def outside_is_untouched(outside: Path) -> Iterator[None]:
    """Check after the test that nothing outside the root has changed in any way."""
    before = snapshot(outside)
    yield
    assert snapshot(outside) == before
