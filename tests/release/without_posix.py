"""Modules and names that Windows has not, taken away from this package: `python -m tests.release.without_posix CODE`.

It shows what breaks when a module is imported or a name is used; what works otherwise there, such as pipes, it can't.
With paths, or arguments that begin with `-`, it runs pytest with them: `... without_posix --fast tests/policy`.
"""

from __future__ import annotations

import builtins
import importlib
import os
import signal
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

MODULES = frozenset(
    {"crypt", "fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty", "uvloop"},
)
"""Modules that Windows has not."""
_KEPT_SIGNALS = frozenset({"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"})
_OF_OS = """
    O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK P_PID WEXITED WNOHANG WNOWAIT CLD_EXITED chown chroot fchmod
    fchown fork forkpty getegid geteuid getgid getgroups getpgid getpgrp getpriority getsid getuid initgroups killpg
    lchown mkfifo mknod nice openpty posix_spawn pread pwrite register_at_fork sched_getaffinity sendfile set_blocking
    setegid seteuid setgid setpgid setpriority setsid setuid sysconf tcgetpgrp uname wait wait3 wait4 waitid
"""
HIDDEN: Mapping[str, frozenset[str]] = {
    "os": frozenset(_OF_OS.split()),
    "signal": frozenset(name for name in dir(signal) if name.startswith("SIG") and name not in _KEPT_SIGNALS)
    - {"SIG_DFL", "SIG_IGN"}
    | {"alarm", "pause", "pthread_kill", "pthread_sigmask", "setitimer", "siginterrupt", "sigpending", "sigwait"},
    "sys": frozenset(),
}
"""Names that modules have not on Windows; `set_blocking` is there from Python 3.12 on."""
OTHERWISE: Mapping[str, Mapping[str, Any]] = {"os": {"name": "nt"}, "signal": {}, "sys": {"platform": "win32"}}
_PACKAGE = "agent_utilities"


class AsOnWindows(ModuleType):
    """A module without the names that it has not on Windows."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__dict__.update(OTHERWISE[name])
        self.__dict__["_real"] = importlib.import_module(name)

    def __getattr__(self, name: str) -> Any:
        if name in HIDDEN[self.__name__]:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self.__dict__["_real"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_real"], name, value)


def hide() -> None:
    """Take them away from what this package imports from now on; other libraries keep theirs."""
    modules = {name: AsOnWindows(name) for name in HIDDEN}
    real = builtins.__import__

    def as_on_windows(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        importer = str((globals or {}).get("__name__", ""))
        if importer.partition(".")[0] == _PACKAGE:
            if name.partition(".")[0] in MODULES:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            if name in modules:
                return modules[name]
        return real(name, globals, locals, fromlist, level)

    builtins.__import__ = as_on_windows


def main(argv: list[str]) -> int:
    """Hide, then run the one argument as code or, where it is an option or a path, pytest with all of them."""
    if any(name.partition(".")[0] == _PACKAGE for name in sys.modules):
        raise RuntimeError("the package is imported already")
    hide()
    if len(argv) == 1 and not argv[0].startswith("-") and not os.path.exists(argv[0]):
        exec(compile(argv[0], "<code>", "exec"), {"__name__": "__main__"})
        return 0
    import pytest

    return int(pytest.main(argv))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
