"""Servers as real processes, ended by their own process id."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

HERE = Path(__file__).parent
READY_S = 100
_LOG_KEPT = 100_000
_URL = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class Launch:
    """How an operator launches a server script.

    Args:
        env: the `MCP_*` variables set for it; all others are unset, the graph is off, the ranker lexical and no
            settings file read unless they are set.
        options: its command-line options beside the transport's.
        script: the script's file name in this folder.
        folder: the working folder of the process; that of the tests where None.
    """

    env: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    script: str = "bounded_server.py"
    folder: Path | None = None

    @property
    def environ(self) -> dict[str, str]:
        """The whole environment of the process."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
        return {**kept, "MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_CONFIG_FILE": "none", **dict(self.env)}

    def command(self, *options: str) -> list[str]:
        """Return the command line, with further options."""
        return [sys.executable, str(HERE / self.script), *options, *self.options]


class HttpProcess:
    """A server process that serves HTTP on a port of its own choice.

    Args:
        command: the command line; it must log uvicorn's line that names the URL.
        environ: the process's environment.
        folder: its working folder; that of the tests where None.
        stdout: the file that uvicorn's log of requests goes to.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        folder: Path | None = None,
        stdout: IO[Any] | None = None,
    ) -> None:
        self.url = ""
        self._log = ""
        self._ended = False
        self._news = threading.Condition()
        self.process = subprocess.Popen(
            command,
            env=dict(environ),
            cwd=folder,
            stdout=stdout or subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def log(self) -> str:
        """The last of what the server logged."""
        return self._log

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._log = (self._log + line)[-_LOG_KEPT:]
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def wait(self) -> None:
        """Return once connections are accepted."""
        self.url = self.wait_for(_URL)[1]

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Return the first match in what the server logs, once it is there.

        Raises:
            RuntimeError: the process ended, or did not log it in time.
        """
        with self._news:
            self._news.wait_for(lambda: self._ended or pattern.search(self._log), READY_S)
            found = pattern.search(self._log)
        if found is None:
            raise RuntimeError(f"the server did not log {pattern.pattern!r}:\n{self._log}")
        return found

    def stop(self) -> None:
        """End the process and wait for it."""
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def rss_kib(self) -> int:
        """Return the process's resident memory in KiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1])  # type: ignore[index]


@contextmanager
def served(launch: Launch) -> Iterator[HttpProcess]:
    """Serve a launch over HTTP for the length of a block."""
    process = HttpProcess(launch.command("-t", "http", "-p", "0", "--log-level", "info"), launch.environ, launch.folder)
    try:
        process.wait()
        yield process
    finally:
        process.stop()
