"""A command run in this process, as its shell would see it: a twentieth of a new process's time.

What only a process of its own can show (that stdout carries nothing else, that it ends when told) needs a real one.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Done:
    """What is left of a command that ended, under the names that `subprocess` has for it."""

    returncode: int
    stdout: str
    stderr: str


def run_command(
    main: Callable[[], Any], arguments: list[str], environ: Mapping[str, str], capture: pytest.CaptureFixture[str]
) -> Done:
    """Return what a command leaves that runs in this process; the process is afterwards as it was.

    Args:
        main: what its program calls.
        arguments: the command line, with the program's name.
        environ: all of its environment.
        capture: the test's `capfd`.
    """
    capture.readouterr()
    with _as_it_was(arguments, environ):
        code = _code(main)
    return Done(code, *capture.readouterr())


def _code(main: Callable[[], Any]) -> int:
    try:
        main()
    except SystemExit as ended:
        # A process whose exit has a message says it and ends with 1.
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    return 0


@contextmanager
def _as_it_was(arguments: list[str], environ: Mapping[str, str]) -> Iterator[None]:
    """Give the process a command line and an environment; take back what a launch sets, such as its logging."""
    package = logging.getLogger("agent_utilities")
    handlers, level, propagate = list(package.handlers), package.level, package.propagate
    signals = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    saved, argv = dict(os.environ), sys.argv
    _set_environ(environ)
    sys.argv = arguments
    try:
        yield
    finally:
        sys.argv = argv
        _set_environ(saved)
        package.handlers[:], package.propagate = handlers, propagate
        package.setLevel(level)
        for number, handler in signals.items():
            signal.signal(number, handler)


def _set_environ(environ: Mapping[str, str]) -> None:
    """Set the environment without a moment in which it is empty, which another thread may read."""
    for name in set(os.environ) - set(environ):
        del os.environ[name]
    os.environ.update(environ)
