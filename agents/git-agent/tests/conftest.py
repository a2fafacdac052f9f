"""A root with real repositories in it, and a client in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastmcp import Client
from fastmcp.exceptions import ToolError

from git_agent.server import mcp


class Repo:
    """A repository that git itself works on, in a folder of the test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *args: str, data: bytes = b"") -> str:
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *args],
            cwd=self.path,
            input=data,
            capture_output=True,
            check=True,
            timeout=30,
        )
        return done.stdout.decode("utf-8", "backslashreplace").strip()

    def write(self, name: str, text: str | bytes = "text\n") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def commit(self, name: str = "a.txt", text: str | bytes = "text\n", message: str = "add") -> str:
        self.write(name, text)
        self.git("add", "--", name)
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """New repositories to copy: `tree`, and the bare one `bare`."""
    folder = tmp_path_factory.mktemp("blank")
    init = ["git", "init", "-q", "-b", "main", "--template="]
    subprocess.run([*init, str(folder / "tree")], check=True, timeout=30)
    subprocess.run([*init, "--bare", str(folder / "bare")], check=True, timeout=30)
    return folder


Call = Callable[..., dict[str, Any]]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one allowed root; beside it lies `outside`."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").mkdir()
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("GIT_AGENT_ROOTS", str(root))
    return root


@pytest.fixture
def outside(root: Path) -> Path:
    """A folder that no tool may touch."""
    return root.parent / "outside"


@pytest.fixture
def make_repo(root: Path, blank: Path) -> Callable[..., Repo]:
    """Makes a repository, or finds the one made before; relative paths lie below the root."""

    def make(name: str | Path = "repo", *, bare: bool = False) -> Repo:
        path = root / name
        if not (path / ("HEAD" if bare else ".git")).exists():
            shutil.copytree(blank / ("bare" if bare else "tree"), path, dirs_exist_ok=True)
        return Repo(path)

    return make


@pytest.fixture
def repo(make_repo: Callable[..., Repo]) -> Repo:
    """A repository `repo` without commits."""
    return make_repo()


@pytest.fixture(scope="session")
def connection() -> Iterator[tuple[BlockingPortal, Client[Any]]]:
    """A client connected in memory on an event loop of its own; making one takes longer than most calls."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(Client(mcp)) as client:
        yield portal, client


@pytest.fixture
def call(root: Path, connection: tuple[BlockingPortal, Client[Any]]) -> Call:
    """Calls a tool through a client and returns its structured result."""
    portal, client = connection

    def run(tool: str, **arguments: Any) -> dict[str, Any]:
        result = portal.call(client.call_tool_mcp, tool, arguments)
        if result.is_error:
            raise ToolError(result.content[0].text)
        assert result.structured_content is not None
        return result.structured_content

    return run


@pytest.fixture
def refusal(call: Call) -> Callable[..., str]:
    """Calls a tool that must fail and returns its message."""

    def run(tool: str, **arguments: Any) -> str:
        with pytest.raises(ToolError) as caught:
            call(tool, **arguments)
        return str(caught.value)

    return run


@pytest.fixture
def conflicted(repo: Repo) -> Repo:
    """A repository in the middle of a merge with a conflict in `a.txt`."""
    repo.commit("a.txt", "base\n")
    repo.git("checkout", "-q", "-b", "other")
    repo.commit("a.txt", "theirs\n", "theirs")
    repo.git("checkout", "-q", "main")
    repo.commit("a.txt", "ours\n", "ours")
    with pytest.raises(subprocess.CalledProcessError):
        repo.git("merge", "other")
    return repo
