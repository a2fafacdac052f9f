"""A child process is bounded, and its complaints are fit for a caller."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from functools import partial

import anyio
import pytest

from git_agent.command import explained
from git_agent.process import run_bounded
from git_agent.settings import Settings
from tests.every import every


def python(code: str, tmp_path, **limits):
    limits = {"timeout_s": 30.0, "max_bytes": 1000} | limits
    return run_bounded([sys.executable, "-c", code], cwd=tmp_path, env={}, **limits)


class TestOutput:
    def test_is_cut_at_the_bound_and_so_are_complaints(self, tmp_path):
        done = python("print('x' * 999)", tmp_path)
        assert (len(done.out), done.truncated) == (1000, False)
        done = python("import sys; sys.stderr.write('x' * 1_000_000); print('x' * 1_000_000)", tmp_path)
        assert (len(done.out), done.truncated, done.code) == (1000, True, 0)
        assert len(done.err) == 64 * 1024

    def test_without_end_is_ended(self, tmp_path):
        done = python("while True: print('x' * 10_000)", tmp_path, stop_when_full=True)
        assert (len(done.out), done.truncated) == (1000, True)


class TestTime:
    def test_of_a_child_that_ignores_the_request_ends_too(self, tmp_path):
        code = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(600)"
        started_s = time.monotonic()
        with pytest.raises(TimeoutError):
            python(code, tmp_path, timeout_s=0.5)
        assert time.monotonic() - started_s < 100


class TestCaller:
    def test_that_leaves_takes_the_child_along(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        code = "import time; open('pipe', 'w').close(); time.sleep(600)"
        work = partial(python, code, tmp_path, timeout_s=60, ends_with_caller=True)

        async def leave_early():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.to_thread.run_sync, work)
                await anyio.to_thread.run_sync((tmp_path / "pipe").read_bytes)
                tasks.cancel_scope.cancel()

        anyio.run(leave_early)  # raises TimeoutError where the child goes on


class TestFamily:
    def test_of_a_child_ends_with_it(self, tmp_path):
        grandchild = (
            "import socket, sys, time\n"
            f"line = socket.socket(socket.AF_UNIX); line.connect({str(tmp_path / 's')!r})\n"
            "print('x' * 100_000, flush=True); time.sleep(600)"
        )
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(tmp_path / "s"))
            listener.listen()
            listener.settimeout(30)
            code = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {grandchild!r}])"
            python(code, tmp_path, stop_when_full=True)
            line, _ = listener.accept()
            with line:
                line.settimeout(30)
                assert line.recv(1) == b""


class TestInput:
    def test_of_the_server_is_never_seen(self, tmp_path):
        code = (
            "import pathlib, sys\nfrom git_agent.process import run_bounded\n"
            "read = [sys.executable, '-c', 'import sys; print(sys.stdin.read())']\n"
            "done = run_bounded(read, cwd=pathlib.Path('.'), env={}, timeout_s=30, max_bytes=100)\n"
            "print(done.out)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], input=b"protocol", capture_output=True, timeout=60, check=True
        )
        assert done.stdout == b"b'\\n'\n"


class TestComplaints:
    @every(
        ("said", "told"),
        [
            ("fatal: bad thing\nhint: try this\n", "bad thing"),
            ("error: cannot open '{root}/repo/a.txt'", "cannot open 'repo/a.txt'"),
            ("fatal: '/home/ada/secret' is bad", "'(a path)' is bad"),
            ("fatal: already checked out at /home/ada/x", "already checked out at (a path)"),
            (
                "fatal: unable to access 'https://u:pw@h.org/x/': no",
                "unable to access 'https://h.org/x/': no",
            ),
            ("fatal: '{root}-other/x'", "'(a path)'"),
        ],
    )
    def test_are_short_and_tell_nothing_of_the_outside(self, tmp_path, said, told):
        root = tmp_path / "root"
        assert explained(Settings((root,)), said.format(root=root).encode()) == told

    def test_are_bounded(self, tmp_path):
        assert len(explained(Settings((tmp_path,)), b"x" * 100_000)) < 1600
