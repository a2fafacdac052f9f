"""Servers as processes of their own, without the second and a half that each takes to import what it is made of.

One process has imported it and waits, and forks for each program: the new process has an id, an environment, a folder,
streams and signals of its own, is a child of the tests' process, and runs the program's file as Python does. What can't
be started so (no program of the project, a variable that is read on import, no Linux) is started as any other.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

# Not that of the package, which is imported in the process that waits.
MARKER = "AGENT_UTILITIES_UPSTREAM"
"""A variable by which processes are found: what is forked keeps the environment that others see."""
_ROOT = Path(__file__).resolve().parents[1]
_BIN = Path(sys.executable).parent
_OF_THE_PROJECT = (b"agent_utilities", b"fastmcp", b"_agent.")
"""What a file says that imports the server."""
_MODULES = ("agent_utilities.", "tests.query.graph.", "tests.gateway.upstreams.", "tests.usage.", "tests.wire.")
_MAIN = "from agent_utilities.cli.app import main; main()"
_READ_ON_IMPORT = ("FASTMCP_", "PYTHON")
_READ_LATER = ("PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")
_ALSO_IMPORTED = (
    "fastmcp.client",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
"""What a server imports when it serves."""
_SET_CHILD_SUBREAPER = 36
_MESSAGE_BYTES = 1_000_000


class Program(subprocess.Popen[Any]):
    """A process: all that `subprocess.Popen` is, and sooner there where it is a program of the project."""

    def _execute_child(self, args: Any, *more: Any) -> None:
        executable, preexec_fn, _, pass_fds, cwd, env, _, _, shell, *ends = more[:15]
        *as_ours, new_session, _ = more[16:]
        environ = os.environ if env is None else env
        is_plain = not (executable or preexec_fn or pass_fds or shell) and as_ours == [None, None, None, -1]
        is_plain &= cwd is None or Path(cwd).is_dir()
        if not is_plain or (arguments := _program(args, environ)) is None:
            super()._execute_child(args, *more)  # type: ignore[misc]
            return
        sys.audit("subprocess.Popen", arguments[0], arguments, cwd, env)
        streams = [own if end == -1 else end for own, end in enumerate((ends[0], ends[3], ends[5]))]
        self.pid = _starter().start(arguments, environ, os.fspath(cwd or Path.cwd()), bool(new_session), streams)
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]


def _read_on_import(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in environ.items() if name.startswith(_READ_ON_IMPORT) and name not in _READ_LATER
    }


_OURS = _read_on_import(os.environ)


def _program(command: Any, environ: Mapping[str, str]) -> list[str] | None:
    """Return what a command has Python run, with its arguments; None where it must be started as any other."""
    if sys.platform != "linux" or isinstance(command, str | bytes | os.PathLike) or MARKER in environ:
        return None
    if _read_on_import(environ) != _OURS:
        return None
    program, *arguments = map(os.fspath, command)
    if program == sys.executable:
        if arguments[:1] == ["-P"]:
            del arguments[0]
        if arguments[:2] == ["-c", _MAIN] or (arguments[:1] == ["-m"] and arguments[1].startswith(_MODULES)):
            return arguments
        program, *arguments = arguments or [""]
    elif Path(program).parent != _BIN:
        return None
    try:
        text = Path(program).read_bytes() if program.endswith(".py") or Path(program).parent == _BIN else b""
    except OSError:
        return None
    return [program, *arguments] if any(word in text for word in _OF_THE_PROJECT) else None


class _Starter:
    """The process that has imported the server, seen from the tests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libc = ctypes.CDLL(None)
        self._link, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            command = [sys.executable, __file__, str(its.fileno())]
            others = {name: value for name, value in os.environ.items() if not name.startswith(_READ_ON_IMPORT)}
            path = {name: os.environ[name] for name in _READ_LATER if name in os.environ}
            self._process = subprocess.Popen(
                command, env=others | path | _OURS, cwd=_ROOT, stdin=subprocess.DEVNULL, pass_fds=[its.fileno()]
            )
        atexit.register(self._end)

    def start(
        self, arguments: list[str], environ: Mapping[str, str], folder: str, new_session: bool, streams: list[int]
    ) -> int:
        """Return the process id of a program that was started with these streams."""
        asked = json.dumps([arguments, dict(environ), folder, new_session]).encode()
        with self._lock:
            # Its parent ends at once; it is given to the nearest process above that takes such ones.
            self._libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._link, [asked], streams)
                answered = self._link.recv(100)
            finally:
                self._libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert answered, "the process that starts programs has ended"
        return int(answered)

    def _end(self) -> None:
        self._link.close()
        self._process.wait()


@cache
def _starter() -> _Starter:
    return _Starter()


def _import_all() -> None:
    import agent_utilities

    for module in pkgutil.walk_packages(agent_utilities.__path__, "agent_utilities."):
        if not module.name.endswith("__main__") and ".templates" not in module.name:
            importlib.import_module(module.name)
    for name in _ALSO_IMPORTED:
        importlib.import_module(name)


def _asked(link: socket.socket) -> tuple[list[str], dict[str, str], str, bool, list[int]]:
    """Return, in each process that is to become a program, what it is to be; the one that forks ends with the tests."""
    while True:
        message, streams, _, _ = socket.recv_fds(link, _MESSAGE_BYTES, 3)
        if not message:
            os._exit(0)
        reads, writes = os.pipe()
        if (between := os.fork()) == 0:
            own = os.getpid()
            if (program := os.fork()) == 0:
                os.close(reads)
                os.close(writes)
                while os.getppid() == own:  # a gateway ends where its parent is another than at its start
                    time.sleep(0.0005)
                return (*json.loads(message), streams)
            os.write(writes, str(program).encode())
            os._exit(0)
        os.close(writes)
        os.waitpid(between, 0)
        link.send(os.read(reads, 100))
        for descriptor in (reads, *streams):
            os.close(descriptor)


def _become_one() -> list[str]:
    """Import all that programs need, wait, and return in each new process what it is to run."""
    del sys.path[0]
    # What ends the tests from a terminal is not for this process: it ends with them.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_all()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as link:
        arguments, environ, folder, new_session, streams = _asked(link)
    for own, stream in enumerate(streams):
        os.dup2(stream, own)
        os.close(stream)
    if new_session:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdin = open(0, closefd=False)
    sys.stdout = io.TextIOWrapper(open(1, "wb", 0 if environ.get("PYTHONUNBUFFERED") else -1, closefd=False))
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.stdout.reconfigure(write_through=bool(environ.get("PYTHONUNBUFFERED")))
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    first = folder if arguments[0] == "-m" else str(Path(arguments[0]).resolve().parent)
    places = [place for place in environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path = [first, *places, *sys.path]
    return arguments


def _run(arguments: list[str]) -> None:
    option, *rest = arguments
    sys.argv = rest if option == "-m" else [option, *rest[1:]] if option == "-c" else arguments
    if option == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif option == "-c":
        exec(rest[0], {"__name__": "__main__"})
    else:
        runpy.run_path(option, run_name="__main__")


if __name__ == "__main__":
    _run(_become_one())
