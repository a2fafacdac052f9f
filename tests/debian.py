"""Programs that tests run and Debian has: those that are there, else installed once, where this user may."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

_INSTALL_S = 300
_ALSO = "/usr/sbin:/sbin"
"""Where servers are, which is not on everybody's PATH."""


@cache
def program(package: str, *names: str) -> str:
    """Return the path of a program: the first of some names on PATH, else that of Debian's package.

    Args:
        package: what Debian calls it.
        names: of the program; the package's where there are none.
    """
    if (found := _found(names or (package,))) is not None:
        return found
    apt = shutil.which("apt-get")
    if apt is None or os.getuid() != 0:
        pytest.skip(f"no {package} is on PATH, and it can't be installed: that takes root and apt-get")
    with (Path(tempfile.gettempdir()) / f"agent-utilities-{package}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be installing it
        if _found(names or (package,)) is None:
            _install(apt, package)
    return _found(names or (package,)) or pytest.skip(f"apt-get installed a {package} that is not on PATH")


def _found(names: tuple[str, ...]) -> str | None:
    path = f"{os.environ.get('PATH', '')}:{_ALSO}"
    return next((found for name in names if (found := shutil.which(name, path=path))), None)


def _install(apt: str, package: str) -> None:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for what in (["update"], ["install", "-y", package]):
        try:
            done = subprocess.run([apt, "-qq", *what], env=environ, capture_output=True, text=True, timeout=_INSTALL_S)
        except subprocess.TimeoutExpired:
            pytest.skip(f"apt-get {what[0]} did not end within {_INSTALL_S} s")
        if done.returncode:
            pytest.skip(f"apt-get {what[0]} failed: {done.stderr.strip()[-200:]}")
