"""What capabilities need to have installed: read from the head of a tap's scripts, looked for, never run here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES = 8 * 1024
"""How much of a script is read: its head comment stands there."""
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}/[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)
_SHOWN_CHARACTERS = 80
_CHECK = re.compile(r"#+\s*check\s*:(.*)", re.IGNORECASE)
_PROGRAM = re.compile(r"/?[A-Za-z0-9_][\w.+@-]*(/[\w.+@-]+)*", re.ASCII)
_ASKING = ("command -v ", "command -V ", "which ", "type -P ", "type -p ", "type ", "hash ")
"""How a shell is asked whether there is a command: what is asked for stands after it."""
_TESTS = frozenset({"test", "if", "for", "while", "case", "source", "eval", "exec", "set", "export", "true", "false"})
"""First words that say nothing of whether something is installed."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """Something that must be installed.

    Args:
        name: as the capability names it, `OWNER/TOOL`.
        check: the command that its script says to look for, verbatim; empty where it says none.
        script: what would install it; None where there is no such script.
        problem: why `script` is None, for a person; empty where there is one.
    """

    name: str
    check: str = ""
    script: Path | None = None
    problem: str = ""

    @property
    def program(self) -> str:
        """The program that its check is about; empty where that can't be told without a shell."""
        check = self.check.strip()
        asked = next((check[len(words) :] for words in _ASKING if check.startswith(words)), check)
        word = asked.split(maxsplit=1)[0] if asked.strip() else ""
        return word if _PROGRAM.fullmatch(word) and word not in _TESTS else ""

    def why_missing(self, path: str) -> str:
        """Return why its program is not in the folders of a `PATH`, for a person; empty where it is. Nothing is run."""
        if self.problem:
            return self.problem
        script = f"deps/{self.name}.sh"
        if not self.check:
            return f"{script} has no line '# check: COMMAND', so it can't be looked for"
        if not (program := self.program):
            return f"the check {_shown(self.check)} in {script} names no command: write its name alone"
        try:
            is_there = shutil.which(program, path=path) is not None
        except (OSError, ValueError):
            is_there = False
        return "" if is_there else f"{program!r} is not installed"


def read_requirement(name: str, tap: Path) -> Requirement:
    """Return what a tap, the folder that `deps/` stands in, says of a requirement; what can't be read is told in it."""
    if not _NAME.fullmatch(name) or ".." in name:
        return Requirement(name, problem=f"{_shown(name)} names no requirement: write OWNER/TOOL, as in docker/docker")
    script = tap / "deps" / f"{name}.sh"
    try:
        if not script.resolve(strict=True).is_relative_to((tap / "deps").resolve(strict=True)):
            what = "is a link that leads out of deps/: put the script itself there"
            return Requirement(name, problem=f"deps/{name}.sh {what}")
    except (OSError, RuntimeError):
        return Requirement(name, problem=f"there is no deps/{name}.sh beside capabilities/: add it, or drop it there")
    try:
        head = _head(script)
    except OSError as error:
        return Requirement(name, problem=f"deps/{name}.sh can't be read: {error.strerror or error}")
    return Requirement(name, next(_checks(head), ""), script.absolute())


def _head(script: Path) -> str:
    """Return the beginning of a regular file; a pipe or device, which might never give any, is refused."""
    if not script.is_file():
        raise OSError(0, "it is no file")
    with script.open("rb") as file:
        return file.read(HEAD_BYTES).decode("utf-8-sig", errors="replace")


def _checks(head: str) -> Iterator[str]:
    """Yield the checks of a head comment, which ends where the script begins."""
    for text in map(str.strip, head.splitlines()):
        if text and not text.startswith("#"):
            return
        if found := _CHECK.fullmatch(text):
            yield found[1].strip()


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")
