"""One program as values: its limits, the calls that it made, what it came to, and all that it takes to go on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_utilities.errors import AgentUtilitiesError

INSTALL = "pip install 'pydantic-monty>=1.4,<1.5'"
"""What does where the interpreter is not installed."""
LONGEST_ERROR = 2_000
"""Characters of what a model reads of an error, and of what was printed before it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one program.

    Args:
        wall_s: seconds from its start to its end, without those that it waits for a person.
        own_s: seconds in which it computes, its calls not counted.
        calls, calls_at_once: the most that it makes in all, and at one time.
        data_bytes: the most that results of calls bring into it, in all, as JSON.
        printed_bytes: the most that it prints.
    """

    wall_s: float = 30.0
    own_s: float = 5.0
    calls: int = 100
    calls_at_once: int = 10
    data_bytes: int = 4 << 20
    printed_bytes: int = 256 << 10


LIMITS = Limits()


@dataclass(slots=True)
class Made:
    """A call that a program made.

    Args:
        arguments: as JSON, shortened.
        writes: whether the tool may change something.
        outcome: `ok`, `failed` or `asked`; `waiting` until it is begun, and `unknown` while it is under way, also
            where it was cancelled then.
    """

    tool: str
    arguments: str
    writes: bool
    outcome: str = "waiting"


@dataclass(frozen=True, slots=True)
class Function:
    """A tool as a program calls it.

    Args:
        call: makes a call by the program's own arguments, as JSON has them; returns the value, and its bytes as JSON.
        writes: whether the tool may change something.
    """

    call: Callable[[tuple[Any, ...], Mapping[str, Any]], Awaitable[tuple[Any, int]]]
    tool: str
    writes: bool


class CallError(AgentUtilitiesError, RuntimeError):
    """A call failed; the program gets this as a `RuntimeError`."""


class ProgramError(AgentUtilitiesError, RuntimeError):
    """A program did not end as it should; `made` has the calls that it had made, and `printed` what it had printed."""

    def __init__(self, what: str, made: Sequence[Made] = (), printed: str = "") -> None:
        super().__init__(what)
        self.made, self.printed = made, printed

    def __str__(self) -> str:
        text = str(self.args[0])
        if self.made:
            text += f"\n{json.dumps(ledger_of(self.made), ensure_ascii=False)}"
        return f"{text}\nprinted before that:\n{tail_of(self.printed)}" if self.printed else text


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program came to: its value, what it printed, and the calls that it made.

    Args:
        value: a text as it is, all else as JSON; None where there is none.
    """

    value: str | None
    printed: str
    made: Sequence[Made]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call of a program that is not answered yet.

    Args:
        place: its place among the calls that the program made.
        question: the id of the question that somebody is to answer first; empty where nobody is.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: int
    question: str = ""


@dataclass(frozen=True, slots=True)
class Paused:
    """A program that waits for approval, and all that it takes to go on in any process.

    Args:
        state: the interpreter's.
        waiting: the calls that wait, by the interpreter's number of each.
        program: the id of the program, for the record.
        functions: the tools that exist for it, by the names that it calls them by.
    """

    state: bytes
    waiting: Mapping[int, Waiting]
    made: Sequence[Made]
    printed: str
    wall_s: float
    data_bytes: int
    program: str
    functions: Mapping[str, str]

    @property
    def questions(self) -> list[str]:
        """The ids of the questions that somebody is to answer."""
        return [each.question for each in self.waiting.values()]

    def to_bytes(self) -> bytes:
        """Return all of it for keeping."""
        waiting = {number: asdict(each) for number, each in self.waiting.items()}
        made = [asdict(each) for each in self.made]
        rest = self.printed, self.wall_s, self.data_bytes, self.program, dict(self.functions)
        head = json.dumps([waiting, made, *rest])
        return head.encode() + b"\n" + self.state

    @classmethod
    def from_bytes(cls, kept: bytes) -> Paused:
        """Return what was kept."""
        head, _, state = kept.partition(b"\n")
        waiting, made, *rest = json.loads(head)
        calls = {int(number): Waiting(**{**each, "args": tuple(each["args"])}) for number, each in waiting.items()}
        return cls(state, calls, [Made(**each) for each in made], *rest)


def ledger_of(made: Sequence[Made]) -> dict[str, list[dict[str, Any]]]:
    """Return the calls that a program made, for who has to know what is done; those that only read are counted."""
    ledger: dict[str, list[dict[str, Any]]] = {"made": [], "unknown": []}
    n_read = Counter(each.tool for each in made if not each.writes and each.outcome == "ok")
    ledger["made"] += [{"tool": tool, "calls": n} for tool, n in n_read.items()]
    for each in made:
        if each.outcome in ("ok", "failed", "unknown") and (each.writes or each.outcome != "ok"):
            line: dict[str, Any] = {"tool": each.tool, "arguments": each.arguments, "writes": each.writes}
            line |= {"failed": True} if each.outcome == "failed" else {}
            ledger["unknown" if each.outcome == "unknown" else "made"].append(line)
    return ledger


def tail_of(text: str) -> str:
    """Return the last characters of a text, where it is long."""
    return text if len(text) <= LONGEST_ERROR else f"…{text[-LONGEST_ERROR:]}"
