"""What may stand in the place of a file, and is none."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        before = os.getcwd()
        os.chdir(path.parent)  # addresses are short
        try:
            bound.bind(path.name)
        finally:
            os.chdir(before)


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"), 0o600)
    path.symlink_to("pipe")


_MADE: dict[str, Callable[[Path], object]] = {
    "pipe": lambda path: os.mkfifo(path, 0o600),
    "folder": lambda path: path.mkdir(0o700),
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/ptmx"),
    "socket": a_socket,
    "link": a_link_to_a_pipe,
    "loop": lambda path: path.symlink_to(path.name),
}
ODD = [pytest.param(make, id=name) for name, make in _MADE.items()]
