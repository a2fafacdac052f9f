"""Who is compared, the environment each runs in, and the process that stands for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from platformdirs import user_cache_path

from benchmarks.measure import Timing

RELEASED = "1.26.4"
ROOT = Path(__file__).parents[1]
WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Contender:
    """One side of the comparison.

    Args:
        lane: its name in tables and results.
        kind: what `worker.py` knows it by.
        python: the interpreter of its environment.
        code: a folder that is looked in for packages before that environment is; empty for none.
    """

    lane: str
    kind: str
    python: str = sys.executable
    code: str = ""


BARE = Contender("bare", "bare")
CONTROL = Contender("bare again", "bare")
"""A second process of the first contender: what it differs by is noise."""
OURS = Contender("ours", "ours")


class ContenderError(RuntimeError):
    """A contender can't be made, or its process failed."""


def released() -> Contender:
    """Return the released agent-utilities in an environment of its own, made under the user's cache folder.

    Its FastMCP and SDK are those of this environment, so that the factories differ and nothing beneath them.

    Raises:
        ContenderError: it can't be installed.
    """
    host = {name: version(name) for name in ("fastmcp", "mcp")}
    python_tag = f"py{sys.version_info.major}.{sys.version_info.minor}"
    tag = f"agent-utilities-{RELEASED}-fastmcp-{host['fastmcp']}-mcp-{host['mcp']}-{python_tag}"
    home = user_cache_path("agent-utilities") / "benchmarks" / tag
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = [f"agent-utilities[mcp]=={RELEASED}", *(f"{name}=={number}" for name, number in host.items())]
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        for command in _install_commands(home, python, wanted):
            _run(command)
        (home / "complete").touch()
    return Contender(RELEASED, "released", str(python))


def _install_commands(home: Path, python: Path, wanted: Sequence[str]) -> list[list[str]]:
    if uv := shutil.which("uv"):
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(home)],
            [uv, "pip", "install", "--quiet", "--python", str(python), *wanted],
        ]
    return [
        [sys.executable, "-m", "venv", str(home)],
        [str(python), "-m", "pip", "install", "--quiet", *wanted],
    ]


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ContenderError(f"agent-utilities {RELEASED} can't be installed: {error}") from None
    if done.returncode:
        reason = " ".join(done.stderr.split())[-400:]
        raise ContenderError(f"agent-utilities {RELEASED} can't be installed: {reason}")


@contextmanager
def code_of(commit: str, lane: str) -> Iterator[Contender]:
    """Give this factory as it was at an earlier commit, in the environment of this one.

    Raises:
        ContenderError: there is no git, or no such commit, or it can't run on the FastMCP that is installed.
    """
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        archive = Path(folder, "code.tar")
        packing = ["git", "archive", "--format=tar", f"--output={archive}", commit, "agent_utilities"]
        trying = [sys.executable, "-P", "-c", "from agent_utilities import create_mcp_server as c; c('tried')"]
        environ = os.environ | {"PYTHONPATH": folder}
        for command in (packing, ["tar", "-xf", str(archive), "-C", folder], trying):
            try:
                subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environ)
            except (OSError, subprocess.CalledProcessError) as error:
                reason = getattr(error, "stderr", b"") or repr(error).encode()
                told = reason.decode(errors="replace").strip().splitlines()[-1]
                raise ContenderError(f"no code of commit {commit}: {told}; give --before COMMIT") from None
        yield Contender(lane, OURS.kind, code=folder)


def environment(home: str) -> dict[str, str]:
    """Return the variables every process is started with: nothing of the caller's that steers a server.

    Args:
        home: an empty folder to serve as the home folder.
    """
    environ = {name: os.environ[name] for name in ("PATH", "LANG", "SYSTEMROOT") if name in os.environ}
    return {
        **environ,
        "HOME": home,
        "PYTHONHASHSEED": "0",
        "MCP_RANKER": "lexical",
        "FASTMCP_SHOW_SERVER_BANNER": "false",
        "FASTMCP_CHECK_FOR_UPDATES": "off",
    }


class Process:
    """A worker process; a context manager that ends it.

    Args:
        contender: whom it stands for.
    """

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self._home = tempfile.TemporaryDirectory(prefix="benchmark-")
        self._errors: IO[bytes] = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [contender.python, str(WORKER), contender.kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(self._home.name) | ({"PYTHONPATH": contender.code} if contender.code else {}),
            cwd=self._home.name,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()
        self._home.cleanup()

    def order(self, op: str, **given: Any) -> None:
        """Send an order; `answer` awaits what comes of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, **given}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the answer to the last order.

        Raises:
            ContenderError: the worker reports an error, or is gone.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip()[-800:]
            raise ContenderError(f"the process of {self.contender.lane} ended: {said}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ContenderError(f"{self.contender.lane}: {answer['error']}")
        return answer

    def ask(self, op: str, **given: Any) -> dict[str, Any]:
        """Send an order and return its answer."""
        self.order(op, **given)
        return self.answer()

    def serve(self, method: str, params: Any, headers: dict[str, str], n_calls: int, n_tools: int) -> list[Timing]:
        """Return the timings of requests served in the worker, past the HTTP transport.

        Raises:
            ContenderError: the result is an error, or a list has not `n_tools` tools.
        """
        answer = self.ask("ask", method=method, params=params, headers=headers, n_calls=n_calls)
        if answer["is_error"] or answer["n_tools"] != n_tools:
            raise ContenderError(f"{self.contender.lane}: {method} gave {answer['n_tools']} tools, not {n_tools}")
        return [Timing(wall_s, cpu_s) for wall_s, cpu_s in answer["timings"]]
