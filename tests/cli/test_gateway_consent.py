"""A cloned repository runs no program: `agent-utilities gateway` in its folder asks first, by a real terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.outside
COMMAND = Path(sys.executable).parent / "agent-utilities"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    program = f"from pathlib import Path; Path({str(folder / 'ran')!r}).touch()"
    server = {"command": sys.executable, "args": ["-c", program]}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"stranger": server}}))
    return folder


def env(folder: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MCP_", "XDG_"))}
    return {**own, **dict.fromkeys(("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), str(folder.parent))}


def on_a_terminal(folder: Path, answer: bytes) -> tuple[int, str]:
    """Run it on a terminal of its own, answer what it asks; return its exit code and what was seen."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(COMMAND, [str(COMMAND), "gateway", "--list"], env(folder))
    seen = b""
    try:
        while chunk := os.read(terminal, 65536):
            seen += chunk
            if b"[y/N] " in seen and answer:
                os.write(terminal, answer)
                answer = b""
    except OSError:  # which is how a terminal says that its last program has ended
        pass
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()


def test_without_a_terminal_nothing_runs(repository: Path) -> None:
    command, more = [COMMAND, "gateway", "--list"], {"cwd": repository, "env": env(repository)}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, **more)
    assert (done.returncode, done.stdout) == (2, "")
    assert "starts nothing until you agree to it" in done.stderr
    assert not (repository / "ran").exists()


def test_a_no_runs_nothing_and_a_yes_does(repository: Path) -> None:
    code, seen = on_a_terminal(repository, b"n\n")
    assert (code, (repository / "ran").exists()) == (2, False)
    assert f"run      {sys.executable} -c" in seen
    assert on_a_terminal(repository, b"y\n")[0] == 0
    assert (repository / "ran").exists()
