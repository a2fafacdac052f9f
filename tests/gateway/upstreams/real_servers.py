"""Seven MCP servers that others wrote, from npm and PyPI, kept in the user's cache folder, outside the checkout.

Each runs as its own users run it, in an environment that shares nothing with this one. Where one can't be had, a test
that asks for it is skipped with the reason; a pin that doesn't exist is an error.
"""

from __future__ import annotations

import http.server
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import platformdirs
import pytest

from tests.conformance import node

MCP_HUB = "4.2.1"
"""The gateway from npm that the benchmarks compare with."""
PYTHON_PINS = ("mcp==2.3.0", "pydantic==2.14.3")
"""What the Python servers are built on: their results are compared with what is written down here."""

SCRIPTS = "Scripts" if os.name == "nt" else "bin"
_INSTALL_S = 300
_NO_SUCH_PIN = ("no version of", "not found in the package registry")


@dataclass(frozen=True)
class RealServer:
    """A server, as its authors publish it.

    Args:
        name: what a config calls it.
        package: its name in its registry.
        version: the version that is installed.
        registry: where it comes from.
        program: npm: the file to run, from the package's folder. PyPI: its command.
    """

    name: str
    package: str
    version: str
    registry: Literal["npm", "PyPI"]
    program: str

    def command(self) -> list[str]:
        """Return how it is started, installed if it isn't yet."""
        if self.registry == "npm":
            return [node.node(), str(node.installed(self.package, self.version) / self.program)]
        ours = [f"{server.package}=={server.version}" for server in SERVERS if server.registry == "PyPI"]
        return [str(python_environment(*ours, *PYTHON_PINS) / SCRIPTS / self.program)]


def _npm(name: str) -> RealServer:
    return RealServer(name, f"@modelcontextprotocol/server-{name}", "2026.8.31", "npm", "dist/index.js")


SERVERS = (
    _npm("everything"),
    _npm("filesystem"),
    _npm("memory"),
    _npm("sequential-thinking"),
    RealServer("git", "mcp-server-git", "2026.10.19", "PyPI", "mcp-server-git"),
    RealServer("time", "mcp-server-time", "2026.10.19", "PyPI", "mcp-server-time"),
    RealServer("fetch", "mcp-server-fetch", "2026.10.24", "PyPI", "mcp-server-fetch"),
)
N_TOOLS = 52
"""How many tools the seven list together."""


def real_config(folder: Path, n_times: int = 1, memory: str = "memory") -> dict[str, Any]:
    """Return an `mcp.json` of all seven, over the same few files.

    Args:
        folder: made where it is absent; in it a git repository, and what the memory servers keep.
        n_times: how often each server is named: the second time as `git2`, and so on.
        memory: what the files of the memory servers are called; each needs one of its own.
    """
    workspace = make_workspace(folder)
    install_all()
    servers = {}
    for n in range(1, n_times + 1):
        for server in SERVERS:
            command, *fixed = server.command()
            given, env = _settings(server.name, workspace, folder / f"{memory}{n}.jsonl")
            name = server.name if n == 1 else f"{server.name}{n}"
            servers[name] = {"command": command, "args": [*fixed, *given], "env": env}
    return {"mcpServers": servers}


def _settings(name: str, workspace: Path, memory: Path) -> tuple[list[str], dict[str, str]]:
    """Return a server's arguments and variables."""
    if name == "filesystem":
        return [str(workspace)], {}
    if name == "memory":
        return [], {"MEMORY_FILE_PATH": str(memory)}
    if name == "git":
        return ["--repository", str(workspace)], {}
    if name == "time":
        return ["--local-timezone", "UTC"], {}
    if name == "fetch":
        return ["--ignore-robots-txt", "--allow-private-ips"], {}
    return [], {}


def make_workspace(folder: Path) -> Path:
    """Return a folder of files under git, the same every time but for its path; made where it is absent."""
    workspace = folder / "workspace"
    if workspace.exists():
        return workspace
    (workspace / "notes").mkdir(parents=True)
    (workspace / "read me.txt").write_text("Grüße, 世界: two lines,\nand an end\n", encoding="utf-8")
    (workspace / "notes" / "numbers.csv").write_text("\n".join(f"{i},{i * i}" for i in range(500)), encoding="utf-8")
    (workspace / "dot.png").write_bytes(bytes(range(256)))
    _git(workspace, "init", "-q", "-b", "main")
    _git(workspace, "add", "-A")
    _git(workspace, "commit", "-q", "-m", "First files")
    (workspace / "notes" / "added.md").write_text("# Added\n", encoding="utf-8")
    _git(workspace, "add", "-A")
    _git(workspace, "commit", "-q", "-m", "Add a note")
    (workspace / "notes" / "added.md").write_text("# Added, and changed since\n", encoding="utf-8")
    return workspace


def _git(folder: Path, *arguments: str) -> None:
    author = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY.items()}
    subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **author}, check=True, capture_output=True)


_IDENTITY: Mapping[str, str] = {"NAME": "A Reader", "EMAIL": "reader@example.org", "DATE": "2026-01-02T03:04:05Z"}


@cache
def install_all() -> None:
    """Install what isn't yet, all at once."""
    node.node()
    with ThreadPoolExecutor() as pool:
        # A skip is raised here, by name, not in a thread.
        for future in [pool.submit(server.command) for server in SERVERS]:
            future.result()


def mcp_hub() -> list[str]:
    """Return the command of mcp-hub, installed if it isn't yet."""
    package = node.installed("mcp-hub", MCP_HUB)
    return [node.node(), str(package / "dist" / "cli.js")]


@cache
def python_environment(*wanted: str) -> Path:
    """Return an environment with some pinned packages in it, made if it isn't there.

    It appears under its final name whole or not at all, so that two processes may make it at once.
    """
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    machine = f"{sys.platform}-{platform.machine()}".lower()
    root = Path(platformdirs.user_cache_dir("agent-utilities")) / "python" / machine
    final = root / "-".join([python, *(spec.removeprefix("mcp-server-") for spec in wanted)])
    if final.is_dir():
        return final
    root.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".installing-", dir=root))
    try:
        uv = [sys.executable, "-m", "uv"]
        # Its scripts name their interpreter by where they lie themselves, so that the whole can be renamed.
        _run([*uv, "venv", "-q", "--relocatable", "--allow-existing", "--python", sys.executable, str(staging)])
        _run([*uv, "pip", "install", "-q", "--python", str(staging), *wanted])
        try:
            os.rename(staging, final)
        except OSError:
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return final


def _run(command: list[str]) -> None:
    what = " ".join(command[3:5])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"no Python MCP servers: uv {what} took over {_INSTALL_S} s")
    if done.returncode == 0:
        return
    reason = " ".join(done.stderr.split())[-300:]
    if any(sign in reason for sign in _NO_SUCH_PIN):
        raise RuntimeError(f"uv has no such Python MCP server: {reason}")
    pytest.skip(f"no Python MCP servers: uv {what} failed: {reason}")


@contextmanager
def one_page(content: bytes, mime_type: str) -> Iterator[str]:
    """Serve one page of text in UTF-8 for the length of a block, and give its URL."""

    class OnePage(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", f"{mime_type}; charset=utf-8")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), OnePage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/page"
        finally:
            server.shutdown()
            thread.join()
