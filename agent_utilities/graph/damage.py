"""An embedded graph's file that the engine refuses: telling damage from other trouble, and setting files aside."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

_OF_THE_FILE = re.compile(
    r"(Runtime|Storage|Catalog|Binder) exception: |Assertion failed in file |.*\bcorrupt", re.DOTALL
)
"""What the engine's errors say that blame what a file holds. Others speak of the machine (`IO exception`: no
permission, a lock, no space; `Buffer manager exception`: no memory), or of the engine: its library was not found."""


def is_damage(error: Exception) -> bool:
    """Return whether an error at opening blames what the file holds.

    The engine has no error of its own for that: whatever it trips over in a damaged file is a `RuntimeError` that
    names the kind of trouble, or what its C++ library throws at a length or an index that is none. `MemoryError` is
    left out, though a damaged length may cause it: short memory is no reason to set a good file aside.
    """
    if isinstance(error, RuntimeError):
        return _OF_THE_FILE.match(str(error)) is not None
    return isinstance(error, ValueError | IndexError) and "::" in str(error)  # such as `vector::reserve`


def name_aside(path: Path) -> Path:
    """Return the name that a database file is set aside under, the first part of those of the files that go with it."""
    return path.with_name(f"{path.name}.corrupt-{time.time_ns()}")


def log_of(path: Path) -> Path:
    """Return the engine's write-ahead log of a database file."""
    return path.with_name(f"{path.name}.wal")


def keep_log(path: Path, aside: Path) -> None:
    """Copy the log of a database file before the engine cuts it, to where it goes when all is set aside."""
    shutil.copy2(log_of(path), log_of(aside))


def set_aside(path: Path, aside: Path) -> None:
    """Rename a database file and all that goes with it; nothing is deleted.

    The file itself goes last: a log without its file would be taken for another database's.
    """
    for companion in path.parent.glob(f"{path.name}.*"):
        rest = companion.name.removeprefix(path.name)
        if not rest.startswith(".corrupt-"):
            companion.rename(aside.with_name(aside.name + rest))
    path.rename(aside)
