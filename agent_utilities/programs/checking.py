"""What is wrong with a program, by line, before it runs: what Monty can't run, tools not awaited, and wrong types.

A program is refused only for what is certain to fail: a model that is told of what would have worked writes it again
for nothing. The type checker (ty, in Monty) is stricter than that, so what it says is judged here.
"""

from __future__ import annotations

import ast
import json
import re
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_utilities.programs.running import ProgramError
from agent_utilities.programs.stubs import MODULES, Stub, any_stub, class_names, stubs_text

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty

MAX_CODE = 50_000
"""Characters of a program, whose types are checked in half a second."""
_MAX_PROBLEMS, _MAX_SAID, _MAX_READ = 20, 600, 500
_MAX_DOTS = 4
_MAX_MEMORY = 256 << 20
_WORD = re.compile(r"\w+")
_NO_TIME = 1e-9
"""Seconds that a program may run that is only checked: none of it does."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a line of a program, which is counted from 1 on."""

    line: int
    text: str


async def problems_of(pool: AsyncMonty, code: str, stubs: Sequence[Stub]) -> list[Problem]:
    """Return what is certain to fail in a program, by line; of a line that can't run, the type checker is not heard."""
    tree = _tree(code)
    if isinstance(tree, Problem):
        return [tree]
    found = unsupported(code, {stub.python_name for stub in stubs})
    lines = {problem.line for problem in found}
    others = [problem for problem in await type_errors(pool, code, stubs) if problem.line not in lines]
    return sorted([*found, *others], key=lambda problem: problem.line)[:_MAX_PROBLEMS]


async def refuse_what_fails(pool: AsyncMonty, code: str, stubs: Sequence[Stub]) -> None:
    """Refuse a program that is certain to fail.

    Raises:
        ProgramError: with each line, and what is wrong there.
    """
    if problems := await problems_of(pool, code, stubs):
        lines = "\n".join(f"line {each.line}: {each.text}" for each in problems)
        raise ProgramError(f"nothing was called, since the program can't run as it is:\n{lines}")


def words_in(code: str) -> set[str]:
    """Return the names in a program, as Python reads them, and its other words."""
    return set(_WORD.findall(unicodedata.normalize("NFKC", code)))


# -- what can't run ----------------------------------------------------------------------------------------------------


def unsupported(code: str, tools: Collection[str] = ()) -> list[Problem]:
    """Return what Monty's type checker lets pass and its runtime doesn't, and calls of tools that nothing awaits.

    A program that is too long, or nested too deeply to be read, has that one problem. Syntax errors are left to the
    type checker, as Monty reads newer Python than this may be.

    Args:
        tools: Python names of tools.
    """
    tree = _tree(code)
    if isinstance(tree, Problem):
        return [tree]
    program = _Program.of(tree, code, frozenset(tools))
    found = {
        (node.lineno, text)
        for node in program.nodes
        if isinstance(node, ast.stmt | ast.expr | ast.alias)
        for rule in _RULES.get(type(node), ())
        for text in rule(node, program)
    }
    return [Problem(line, text[:_MAX_SAID]) for line, text in sorted(found)[:_MAX_PROBLEMS]]


def _tree(code: str) -> ast.Module | Problem:
    """Return a program's syntax tree, which is empty where its syntax is wrong, or why it can't be read."""
    if len(code) > MAX_CODE:
        return Problem(1, f"the program has {len(code):,} characters, of at most {MAX_CODE:,}")
    try:
        with warnings.catch_warnings():  # such as of "\d"
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except SyntaxError:
        return ast.Module([], [])
    except (RecursionError, MemoryError):
        return Problem(1, "the program is nested too deeply")
    except ValueError:
        return Problem(1, "the program has characters that Python can't read")


@dataclass(frozen=True, slots=True)
class _Program:
    """A program's nodes, and what the rules ask about them.

    Args:
        imported: the module, or `module.name`, by the name that an import binds.
        modules: those that are imported, or that something is imported of.
        bound: names that the program gives a value itself.
        assigned: those of them that are variables.
        passed_on: names of which more is read than a key, an attribute or what an operator makes of them.
        attributes: whether a value may have any attribute, as it may be of a class of the program's own.
        parents: the node above a node, by the `id` of the latter.
    """

    nodes: tuple[ast.AST, ...]
    lines: tuple[str, ...]
    tools: frozenset[str]
    imported: Mapping[str, str]
    modules: frozenset[str]
    bound: frozenset[str]
    assigned: frozenset[str]
    passed_on: frozenset[str]
    attributes: bool
    parents: Mapping[int, ast.AST]

    @classmethod
    def of(cls, tree: ast.Module, code: str, tools: frozenset[str] = frozenset()) -> _Program:
        nodes = tuple(ast.walk(tree))
        parents = {id(child): node for node in nodes for child in ast.iter_child_nodes(node)}
        imported = dict(pair for node in nodes for pair in _imports(node))
        names = [each for each in nodes if isinstance(each, ast.Name)]
        assigned = frozenset(each.id for each in names if isinstance(each.ctx, ast.Store))
        lost = (*_LOSING, ast.Subscript, ast.For)
        read = (each for each in names if isinstance(each.ctx, ast.Load))
        passed_on = frozenset(each.id for each in read if not isinstance(parents[id(each)], lost))
        defined = {each.name for each in nodes if isinstance(each, _DEFINITIONS) and each.name}
        arguments = {each.arg for each in nodes if isinstance(each, ast.arg)}
        bound = assigned | defined | arguments | imported.keys()
        attributes = bool(imported.keys() & {"namedtuple", "pathlib", "Path"})
        attributes = attributes or any(isinstance(each, ast.ClassDef) for each in nodes)
        lines = tuple(code.split("\n"))
        modules = frozenset(each.partition(".")[0] for each in imported.values())
        return cls(nodes, lines, tools - bound, imported, modules, bound, assigned, passed_on, attributes, parents)

    def dotted(self, node: ast.expr) -> str:
        """Return what an expression names, such as `json.dumps` for `j.dumps` after `import json as j`; else empty."""
        names: list[str] = []
        while isinstance(node, ast.Attribute) and len(names) < _MAX_DOTS:
            names.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or (node.id in self.bound and node.id not in self.imported):
            return ""
        return ".".join([self.imported.get(node.id, node.id), *reversed(names)])


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


def _imports(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for each in node.names:
            yield (each.asname, each.name) if each.asname else (each.name.split(".")[0],) * 2
    elif isinstance(node, ast.ImportFrom):
        for each in node.names:
            yield each.asname or each.name, f"{node.module}.{each.name}"


_MISSING = {
    "dataclasses": "Field InitVar KW_ONLY asdict astuple fields make_dataclass replace",
    "datetime": "MAXYEAR MINYEAR UTC tzinfo",
    "datetime.datetime": "utcfromtimestamp utcnow utctimetuple",
    "json": "JSONDecoder JSONEncoder",
    "os": "PathLike environ getenv stat_result",
    "pathlib": "PosixPath PurePath PurePosixPath",
    "re": "DEBUG L LOCALE RegexFlag U UNICODE VERBOSE X purge subn",
    "typing": "AnyStr AsyncGenerator AsyncIterable AsyncIterator Awaitable Collection Container Coroutine Counter"
    " DefaultDict Deque Hashable IO LiteralString Match MutableMapping MutableSequence MutableSet NamedTuple NewType"
    " NotRequired OrderedDict ParamSpec Pattern Required Sized Text TypeAlias TypedDict TypeGuard Unpack assert_never"
    " cast final get_args get_origin get_type_hints overload reveal_type runtime_checkable",
}
"""What the type checker knows of a module and the runtime hasn't: found by importing each name, in Monty 1.4.0."""
_ABSENT = frozenset(f"{module}.{name}" for module, names in _MISSING.items() for name in names.split())
_INSTEAD = {
    "datetime.UTC": "use timezone.utc",
    "datetime.datetime.utcnow": "use datetime.now(timezone.utc)",
    "typing.cast": "leave it out",
}
_ABSENT_NAMES = frozenset("EnvironmentError IOError copyright credits exit help license quit".split())
_TYPES = ("str", "int", "float", "bytes", "list", "dict", "set", "tuple")
_CALLABLE = frozenset(("dict.fromkeys", "bytes.fromhex"))
"""The methods that can be called by their type."""
_METHODS = frozenset(name for kind in (str, list, dict, set) for name in dir(kind) if not name.startswith("_"))


def _module(node: Any, program: _Program) -> Iterator[str]:
    names = [each.name for each in node.names]
    modules = names if isinstance(node, ast.Import) else [node.module or "."]
    for module in modules:
        if module not in MODULES | {"os.path", "__future__"}:
            yield f"there is no module {module!r}; there are {', '.join(sorted(MODULES))}"
    if isinstance(node, ast.ImportFrom) and "*" in names:
        yield "`import *` is not supported: import each name"
    if isinstance(node, ast.ImportFrom):
        yield from (_absent(f"{node.module}.{name}") for name in names if f"{node.module}.{name}" in _ABSENT)


def _absent(name: str) -> str:
    instead = _INSTEAD.get(name)
    return f"there is no {name}{f': {instead}' if instead else ''}"


def _class(node: Any, program: _Program) -> Iterator[str]:
    if node.bases or node.keywords:
        yield "a class can't inherit: raise ValueError or RuntimeError, and use dicts, or a @dataclass"
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.decorator_list:
            yield "decorators of methods are not supported: use a method, or a function outside of the class"


def _call(node: Any, program: _Program) -> Iterator[str]:
    name, keywords = program.dotted(node.func), {each.arg for each in node.keywords}
    if name == "asyncio.gather" and keywords:
        yield "gather takes no keyword arguments: to go on after an error, gather async functions with try and except"
    if name in ("json.dumps", "json.dump") and keywords & {"default", "cls"}:
        yield "json.dumps takes neither default nor cls: make the values text, numbers, lists and dicts before"
    is_sub = isinstance(node.func, ast.Attribute) and node.func.attr == "sub"
    if (is_sub or name == "re.sub") and any(isinstance(each, ast.Lambda) for each in node.args):
        yield "re.sub takes no function: loop over re.finditer, and join the parts"
    if name in _NOT_ASYNC and any(_calls_tool(each, program) for each in ast.iter_child_nodes(node)):
        yield f"a function that {name} calls can't call a tool: use asyncio.gather(*[… for … in …])"
    if isinstance(node.func, ast.Name) and node.func.id in program.tools and _is_lost(node, program):
        yield f"{node.func.id}(…) is not awaited: write `await {node.func.id}(…)`, or pass it to asyncio.gather"


_NOT_ASYNC = ("map", "filter", "sorted", "min", "max")


def _calls_tool(node: ast.AST, program: _Program) -> bool:
    """Return whether an argument is a function that calls a tool, or a tool."""
    value = node.value if isinstance(node, ast.keyword) else node
    if isinstance(value, ast.Name):
        return value.id in program.tools
    names = (each.func for each in ast.walk(value) if isinstance(each, ast.Call))
    return isinstance(value, ast.Lambda) and any(isinstance(x, ast.Name) and x.id in program.tools for x in names)


def _is_lost(call: ast.Call, program: _Program) -> bool:
    """Return whether nothing can await what a tool's call returns."""
    parent = program.parents[id(call)]
    if isinstance(parent, ast.Subscript):
        return parent.value is call
    if isinstance(parent, ast.For | ast.comprehension):
        return parent.iter is call
    if isinstance(parent, ast.Assign | ast.AnnAssign) and parent.value is call:
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        names = {each.id for each in targets if isinstance(each, ast.Name)}
        return len(names) == len(targets) and names.isdisjoint(program.passed_on)
    return isinstance(parent, _LOSING)


_LOSING = (ast.Expr, ast.Attribute, ast.FormattedValue, ast.BinOp, ast.Compare, ast.UnaryOp, ast.If, ast.While)


def _attribute(node: Any, program: _Program) -> Iterator[str]:
    name, parent = program.dotted(node), program.parents[id(node)]
    is_called = isinstance(parent, ast.Call) and parent.func is node
    kind, _, method = name.partition(".")
    if name in _ABSENT:
        yield _absent(name)
    elif kind in _TYPES and method in _METHODS and not (is_called and name in _CALLABLE):
        yield f"{name} is not supported: call it on a value, such as `lambda value: value.{method}()`"
    elif node.attr in _METHODS and isinstance(node.ctx, ast.Load) and not (is_called or program.attributes):
        if program.dotted(node.value).partition(".")[0] not in program.modules:
            yield f".{node.attr} is a method, which can only be called; a key is read as [{json.dumps(node.attr)}]"


def _name(node: Any, program: _Program) -> Iterator[str]:
    if node.id in _ABSENT_NAMES - program.bound:
        yield f"there is no {node.id}"


def _comprehension(node: Any, program: _Program) -> Iterator[str]:
    if any(each.is_async for each in node.generators):
        yield "asynchronous comprehensions are not supported: loop over a list"


def _never(text: str) -> tuple[Callable[[Any, _Program], Iterable[str]], ...]:
    return (lambda node, program: (text,),)


_RULES: dict[type[ast.AST], tuple[Callable[[Any, _Program], Iterable[str]], ...]] = {
    ast.Import: (_module,),
    ast.ImportFrom: (_module,),
    ast.ClassDef: (_class,),
    ast.Call: (_call,),
    ast.Attribute: (_attribute,),
    ast.Name: (_name,),
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp), (_comprehension,)),
    ast.AsyncWith: _never("`async with` is not supported"),
    ast.AsyncFor: _never("`async for` is not supported: loop over a list"),
    ast.Yield: _never("`yield` is not supported: return a list"),
    ast.YieldFrom: _never("`yield from` is not supported: return a list"),
    ast.Delete: _never("`del` is not supported: use .pop(key), or make a new list or dict"),
    ast.TryStar: _never("`except*` is not supported: use `except`"),
}
if hasattr(ast, "TypeAlias"):  # from Python 3.12 on
    _RULES[ast.TypeAlias] = _never("`type` is not supported: leave it out")


# -- what the type checker says ----------------------------------------------------------------------------------------


async def type_errors(pool: AsyncMonty, code: str, stubs: Sequence[Stub]) -> list[Problem]:
    """Return what the type checker is certain of in a program, by line; the program doesn't run.

    It reads only the stubs of tools that the program names, so that a hundred others cost no time. Before a program is
    refused, those are read by themselves: where they can't be, each takes and returns anything. Where the checker fails
    itself, nothing is wrong.
    """
    tree = _tree(code)
    if isinstance(tree, Problem):
        return [tree]
    program = _Program.of(tree, code)
    used = [stub for stub in stubs if stub.python_name in code]
    variables = [stub for stub in used if stub.python_name in program.assigned]
    functions = [stub for stub in used if stub.python_name not in program.assigned]
    shared = [text for name, text in _BUILTINS.items() if name in code and name not in program.bound]
    shared += [f"{stub.python_name}: Any" for stub in variables]
    found = await _checked(pool, code, "\n".join([stubs_text(functions), *shared]))
    problems = _judged(found, _Judge.of(program, functions))
    if problems and await _is_broken(pool, functions):
        functions = [any_stub(stub) for stub in functions]
        found = await _checked(pool, code, "\n".join([stubs_text(functions), *shared]))
        problems = _judged(found, _Judge.of(program, functions))
    return problems


async def _is_broken(pool: AsyncMonty, stubs: Sequence[Stub]) -> bool:
    """Return whether the type checker can't read stubs, which it does not say beside a program."""
    return any(each.code in _BREAKING for each in await _checked(pool, stubs_text(stubs), ""))


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
        places = [(value[key]["row"], value[key]["column"]) for key in ("location", "end_location")]
        return cls(str(value["code"]), str(value["message"]), places[0], places[1])

    def quoted(self, index: int) -> str:
        """Return what stands between the first backticks, or the next."""
        found = re.findall("`([^`]*)`", self.text)
        return found[index] if index < len(found) else ""


async def _checked(pool: AsyncMonty, code: str, stubs: str) -> list[_Diagnostic]:
    import pydantic_monty as monty

    session = pool.checkout(
        type_check=True,
        type_check_stubs=stubs,
        type_check_format="json",
        limits={"max_feed_duration_secs": _NO_TIME, "max_memory": _MAX_MEMORY},
    )
    try:
        async with session as worker:
            await worker.feed_run(code, external_lookup={}, print_callback=lambda stream, text: None)
    except monty.MontyTypingError as error:
        values = json.loads(error.display())[:_MAX_READ]
        return [_Diagnostic.of(each) for each in values if str(each["filename"]).endswith("main.py")]
    except monty.MontySyntaxError as error:
        line = next((frame.line for frame in error.traceback()), 1)
        return [_Diagnostic("invalid-syntax", str(error), (line, 1), (line, 1))]
    except (monty.MontyRuntimeError, monty.MontyCrashedError):  # the first ends every program whose types are right
        pass
    return []


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
    def of(cls, program: _Program, stubs: Sequence[Stub]) -> _Judge:
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
            told[Problem(each.start[0], judge.text(each)[:_MAX_SAID])] = None
    return list(told)[:_MAX_PROBLEMS]


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


def _place(node: ast.AST, program: _Program) -> tuple[int, int]:
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
