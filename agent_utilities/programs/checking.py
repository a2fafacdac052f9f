"""What is certain to fail in a program, by line, before it runs: what can't run, and what the type checker says.

The type checker (ty, in Monty) is stricter than that, so what it says is judged here.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from agent_utilities.programs.program import ProgramError
from agent_utilities.programs.stubs import FIRST_LINE, MODULES, Stub, any_stub, class_names, stubs_text
from agent_utilities.programs.unsupported import MAX_PROBLEMS, MAX_SAID, Problem, Program, tree_of, unsupported
from agent_utilities.runtime.waiting import in_daemon_thread

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty, AsyncMontySession

_T = TypeVar("_T")
_MAX_READ, _MAX_MEMORY, _SHORT = 500, 256 << 20, 5_000
_WORD = re.compile(r"\w+")
N_KEPT, _LONG_S = 2, 0.1
"""Sets of stubs for which a worker is kept, and seconds that a check waits for another one."""
FEW_STUBS = 40
"""Stubs that are all read; of more, those that the program names."""


async def problems_of(check: Checker, code: str, stubs: Sequence[Stub]) -> list[Problem]:
    """Return what is certain to fail in a program, by line; of a line that can't run, the type checker is not heard."""
    tree = tree_of(code)
    if isinstance(tree, Problem):
        return [tree]
    found = await _beside(code, partial(unsupported, code, {stub.python_name for stub in stubs}))
    lines = {problem.line for problem in found}
    others = [problem for problem in await type_errors(check, code, stubs) if problem.line not in lines]
    return sorted([*found, *others], key=lambda problem: problem.line)[:MAX_PROBLEMS]


async def refuse_what_fails(check: Checker, code: str, stubs: Sequence[Stub]) -> None:
    """Refuse a program that is certain to fail.

    Raises:
        ProgramError: with each line, and what is wrong there.
    """
    if problems := await problems_of(check, code, stubs):
        lines = "\n".join(f"line {each.line}: {each.text}" for each in problems)
        raise ProgramError(f"nothing was called, since the program can't run as it is:\n{lines}")


def words_in(code: str) -> set[str]:
    """Return the names in a program, as Python reads them, and its other words."""
    return set(_WORD.findall(unicodedata.normalize("NFKC", code)))


async def type_errors(check: Checker, code: str, stubs: Sequence[Stub]) -> list[Problem]:
    """Return what the type checker is certain of in a program, by line; the program doesn't run.

    It reads only the stubs of tools that the program names, so that a hundred others cost no time. Before a program is
    refused, those are read by themselves: where they can't be, each takes and returns anything. Where the checker fails
    itself, nothing is wrong.
    """
    tree = tree_of(code)
    if isinstance(tree, Problem):
        return [tree]
    program = await _beside(code, partial(Program.of, tree, code))
    used = stubs if len(stubs) <= FEW_STUBS else [stub for stub in stubs if stub.python_name in code]
    functions = [stub for stub in used if stub.python_name not in program.assigned]
    added = [text for name, text in _BUILTINS.items() if name not in program.bound]
    added += [f"{stub.python_name}: Any" for stub in used if stub.python_name in program.assigned]
    found = await check(code, "\n".join([stubs_text(functions), *added]))
    problems = _judged(found, _Judge.of(program, functions))
    if problems and await _is_broken(check, functions):
        functions = [any_stub(stub) for stub in functions]
        found = await check.alone(code, "\n".join([stubs_text(functions), *added]))
        problems = _judged(found, _Judge.of(program, functions))
    return problems


async def _beside(code: str, work: Callable[[], _T]) -> _T:
    """Return what some work on a program comes to; of a long one it is done off the event loop."""
    return work() if len(code) < _SHORT else await in_daemon_thread(work)


async def _is_broken(check: Checker, stubs: Sequence[Stub]) -> bool:
    """Return whether the type checker can't read stubs, which it does not say beside a program."""
    return any(each.code in _BREAKING for each in await check.alone(stubs_text(stubs), ""))


_BREAKING = frozenset("invalid-syntax invalid-type-form unresolved-import unresolved-reference".split())
_OS_ERRORS = "FileExistsError FileNotFoundError IsADirectoryError NotADirectoryError PermissionError".split()
_BUILTINS = {
    "map": "def map(function: Any, *iterables: Any) -> Any: ...",
    "filter": "def filter(function: Any, iterable: Any) -> Any: ...",
    "format": "def format(value: object, spec: str = ...) -> str: ...",
    "getattr": "def getattr(value: object, name: str, default: Any = ...) -> Any: ...",
    "hasattr": "def hasattr(value: object, name: str) -> bool: ...",
    "setattr": "def setattr(value: object, name: str, new: Any) -> None: ...",
    "ImportError": "class ImportError(Exception): ...",
    "ModuleNotFoundError": "class ModuleNotFoundError(Exception): ...",
    "UnboundLocalError": "class UnboundLocalError(NameError): ...",
    "UnicodeDecodeError": "class UnicodeDecodeError(ValueError): ...",
    "UnicodeEncodeError": "class UnicodeEncodeError(ValueError): ...",
    **{name: f"class {name}(OSError): ..." for name in _OS_ERRORS},
}
"""What the runtime has and the type checker doesn't know, in Monty 1.4.0."""


@dataclass(frozen=True, slots=True)
class _Diagnostic:
    """What the type checker says of a place; places are lines and columns, from 1 on."""

    code: str
    text: str
    start: tuple[int, int]
    end: tuple[int, int]

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> _Diagnostic:
        places = [(value[key]["row"] - 1, value[key]["column"]) for key in ("location", "end_location")]
        return cls(str(value["code"]), str(value["message"]), places[0], places[1])

    def quoted(self, index: int) -> str:
        """Return what stands between the first backticks, or the next."""
        found = re.findall("`([^`]*)`", self.text)
        return found[index] if index < len(found) else ""


class Checker:
    """Checks types in workers that it keeps: a first check by some stubs takes 20 ms, each other one a millisecond.

    Nothing of a program stays in them, since none gets past a first line of ours.
    """

    def __init__(self, pool: AsyncMonty) -> None:
        self.pool, self._turn = pool, asyncio.Lock()
        self._kept: OrderedDict[str, AsyncMontySession] = OrderedDict()

    async def alone(self, code: str, stubs: str) -> list[_Diagnostic]:
        """Check a program by stubs that no other program will have."""
        async with self._session(stubs) as session:
            return await _checked(session, code) or []

    async def __call__(self, code: str, stubs: str) -> list[_Diagnostic]:
        """Check a program by stubs that others will have too; in a worker of its own where another check takes long."""
        try:
            async with asyncio.timeout(_LONG_S):
                await self._turn.acquire()
        except TimeoutError:
            return await self.alone(code, stubs)
        session, found = self._kept.pop(stubs, None), None
        try:
            if session is None:
                while len(self._kept) >= N_KEPT:
                    await _ended(self._kept.popitem(last=False)[1])
                session = await self._session(stubs).__aenter__()
            found = await _checked(session, code)
        finally:
            if session is not None and found is not None:
                self._kept[stubs] = session
            elif session is not None:
                await _ended(session)
            self._turn.release()
        return found or []

    def _session(self, stubs: str) -> AsyncMontySession:
        return self.pool.checkout(
            type_check=True,
            type_check_stubs=f"{stubs}\n{FIRST_LINE}: bool\n",
            type_check_format="json",
            limits={"max_feed_duration_secs": 1.0, "max_memory": _MAX_MEMORY, "max_suspensions": 1_000_000},
        )

    async def close(self) -> None:
        """Give the workers back."""
        while self._kept:
            await _ended(self._kept.popitem()[1])


async def _ended(session: AsyncMontySession) -> None:
    with suppress(Exception):  # its worker may have gone already
        await session.__aexit__(None, None, None)


async def _checked(session: AsyncMontySession, code: str) -> list[_Diagnostic] | None:
    """Return what the type checker says of a program, no line of which runs; None where the worker is of no use now."""
    import pydantic_monty as monty

    try:
        snapshot: Any = await session.feed_start(f"{FIRST_LINE}\n{code}", print_callback=lambda stream, text: None)
        while isinstance(snapshot, monty.AsyncFunctionSnapshot):  # the checker asks for modules that it does not know
            snapshot = await snapshot.resume_not_handled()
        if isinstance(snapshot, monty.AsyncNameLookupSnapshot):
            await snapshot.resume()
    except monty.MontyTypingError as error:
        values = json.loads(error.display())[:_MAX_READ]
        return [_Diagnostic.of(each) for each in values if str(each["filename"]).endswith("main.py")]
    except monty.MontySyntaxError as error:
        line = next((frame.line for frame in error.traceback()), 2) - 1
        return [_Diagnostic("invalid-syntax", str(error), (line, 1), (line, 1))]
    except monty.MontyCrashedError:
        return None
    except monty.MontyRuntimeError as error:  # of our first line: the types are right
        return [] if "NameError" in str(error) or "NotImplementedError" in str(error) else None
    return None


_CERTAIN = frozenset(
    "call-non-callable invalid-argument-type invalid-await invalid-key invalid-syntax missing-argument"
    " missing-typed-dict-key not-iterable not-subscriptable parameter-already-assigned too-many-positional-arguments"
    " unknown-argument unresolved-attribute unresolved-import unresolved-reference unsupported-operator"
    " unused-awaitable".split()
)
"""Rules of the type checker; of others what they say may not matter, such as of a program's own annotations."""
_RUNS = ("`return` statement outside", "__future__ imports must", "Cannot resolve imported module `__future__`")
_EXPECTED = re.compile(r"(?:expected|declared type) `([^`]+)`.*?(?:found|of type) `([^`]+)`", re.I)
_ITEM = re.compile("called with key of type `([^`]+)` on object of type `([^`]+)`")
_KEY = re.compile("literal key, got key of type `([^`]+)`")
_OBJECTS = frozenset(("dict", "Mapping", "MutableMapping", "defaultdict", "Counter"))
_ARRAYS = frozenset(("list", "tuple", "Sequence"))
_UNKNOWN = frozenset(("Any", "Unknown", "Never", "object"))


@dataclass(frozen=True, slots=True)
class _Judge:
    """Says what of a diagnostic is certain.

    Args:
        classes: keys of the stubs' `TypedDict`s.
        stubs: those of the tools, by their functions.
        own: functions of the program's own.
        doubtful: places where what is wrong does not matter, or can't be known.
        literals: arguments that are written out where they are passed.
    """

    classes: Mapping[str, tuple[str, ...]]
    stubs: Mapping[str, Stub]
    own: frozenset[str]
    doubtful: frozenset[tuple[int, int]]
    literals: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, program: Program, stubs: Sequence[Stub]) -> _Judge:
        own = (each.name for each in program.nodes if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
        doubtful = (_place(each, program) for node in program.nodes for each in _doubtful(node))
        keywords = (each for each in program.nodes if isinstance(each, ast.keyword) and each.arg)
        literals = (_place(each, program) for each in keywords if _is_literal(each.value))
        classes = {name: keys for stub in stubs for name, keys in class_names(stub.types).items()}
        functions = {stub.python_name: stub for stub in stubs}
        return cls(classes, functions, frozenset(own), frozenset(doubtful), frozenset(literals))

    def is_certain(self, each: _Diagnostic) -> bool:
        if each.code not in _CERTAIN or each.start in self.doubtful or each.text.startswith(_RUNS):
            return False
        if key := _KEY.search(each.text):
            return not self.may_fit(key[1], "str")
        if item := _ITEM.search(each.text):
            return not any(map(_is_vague, item.groups()))
        if types := _EXPECTED.search(each.text):
            is_own = each.quoted(0) in self.own
            return not is_own and (each.start in self.literals or not self.may_fit(types[2], types[1]))
        return not any(map(_is_vague, re.findall("`([^`]*)`", each.text)))

    def may_fit(self, found: str, expected: str) -> bool:
        """Return whether some value of a type may be right where another is expected, both as the checker writes."""
        try:
            return self._may_fit(ast.parse(found, mode="eval").body, ast.parse(expected, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return True

    def _may_fit(self, found: ast.expr, expected: ast.expr) -> bool:
        wanted = list(_members(expected))
        return any(self._fits(one, each) for one in _members(found) for each in wanted)

    def _fits(self, found: ast.expr, expected: ast.expr) -> bool:
        is_value, is_choice = isinstance(found, ast.Constant), isinstance(expected, ast.Constant)
        if is_value and is_choice:
            return ast.dump(found) == ast.dump(expected)
        one, other = _class_of(found), _class_of(expected)
        if one in _UNKNOWN or other in _UNKNOWN or one == "ellipsis":
            return True
        if one in _ARRAYS and other in _ARRAYS:
            items = _arguments(expected)
            return not items or all(self._may_fit(each, items[0]) for each in _arguments(found))
        if one in _OBJECTS and other in _OBJECTS:
            values = [_arguments(found)[1:], _arguments(expected)[1:]]
            return not all(values) or self._may_fit(values[0][0], values[1][0])
        is_object = [each in _OBJECTS or each in self.classes for each in (one, other)]
        return all(is_object) or one == other or (one, other) == ("int", "float")

    def text(self, each: _Diagnostic) -> str:
        """Return what is wrong, with the names that would be right; the checker leaves out some of many choices."""
        names = re.findall("`([^`]*)`", each.text)
        stub = next((self.stubs[name] for name in names if name in self.stubs), None)
        keys = next((self.classes[name] for name in names if name in self.classes), ())
        if stub and each.code in ("unknown-argument", "missing-argument", "too-many-positional-arguments"):
            return f"{each.text}: it takes {', '.join(stub.parameters) or 'nothing'}"
        if each.code == "invalid-key" and keys:
            return f"{each.text}: it has {', '.join(keys)}"
        if each.code == "unresolved-reference" and names[0] in MODULES:
            return f"{each.text}: import it"
        return f"{each.text}: {stub.compact}" if stub and " omitted " in each.text else each.text


def _judged(found: Iterable[_Diagnostic], judge: _Judge) -> list[Problem]:
    """Return what is certain; which key of an argument is wrong is said instead of that the argument is."""
    said = [each for each in found if judge.is_certain(each)]
    starts = [each.start for each in said]
    told = dict[Problem, None]()
    for each in sorted(said, key=lambda each: each.start):
        if each.code != "invalid-argument-type" or not any(each.start < start < each.end for start in starts):
            told[Problem(each.start[0], judge.text(each)[:MAX_SAID])] = None
    return list(told)[:MAX_PROBLEMS]


def _is_vague(type_name: str) -> bool:
    """Return whether a type in a message is one of which nothing is known, or one of several."""
    n = 1
    while n:
        type_name, n = re.subn(r"\[[^\[\]]*\]", "", type_name)
    return " | " in type_name or type_name == "None" or type_name in _UNKNOWN


def _doubtful(node: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes below one of which the checker knows too little, or more than matters."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield node.slice
    if isinstance(node, ast.keyword) and node.arg is None:
        yield node
    for key in ("annotation", "returns"):
        annotation = getattr(node, key, None)
        if isinstance(annotation, ast.AST):
            yield from (each for each in ast.walk(annotation) if isinstance(each, ast.expr))


def _place(node: ast.AST, program: Program) -> tuple[int, int]:
    row, at = node.lineno, node.col_offset  # type: ignore[attr-defined]  # expressions and keywords have both
    line = program.lines[row - 1] if row <= len(program.lines) else ""
    return row, len(line.encode("utf-8", "surrogatepass")[:at].decode("utf-8", "replace")) + 1


def _is_literal(node: ast.expr) -> bool:
    with suppress(ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
        ast.literal_eval(node)
        return True
    return False


def _members(node: ast.expr) -> Iterator[ast.expr]:
    """Return the members of a union, and the values of a `Literal`."""
    if isinstance(node, ast.BinOp):
        yield from _members(node.left)
        yield from _members(node.right)
    elif _class_of(node) == "Literal":
        yield from _arguments(node)
    else:
        yield node


def _arguments(node: ast.expr) -> list[ast.expr]:
    if not isinstance(node, ast.Subscript):
        return []
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _class_of(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return _class_of(node.value)
    if isinstance(node, ast.Constant):
        return type(node.value).__name__
    return node.id if isinstance(node, ast.Name) else "Unknown"
