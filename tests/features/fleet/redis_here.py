"""A Redis of a test's own, on a loopback port, that keeps nothing on disk."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import redis


class RedisHere:
    """One redis-server.

    Args:
        folder: what it works in.
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            pytest.skip("redis-server is not installed")
        self._program, self._folder = program, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        """Start it, empty, on the port that it had before."""
        options = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        log = (self._folder / "redis.log").open("a")
        self.process = subprocess.Popen([self._program, *options], cwd=self._folder, stdout=log, stderr=log)
        log.close()
        with self.client() as client:
            while True:
                try:
                    client.ping()
                    return
                except redis.ConnectionError:
                    assert self.process.poll() is None, "redis-server has ended"

    def client(self) -> redis.Redis:
        """Return a client of its own."""
        return redis.Redis(port=self.port)

    def pause(self) -> None:
        """Have it answer nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Have it answer again."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait()
