"""What Monty's type checker lets pass and its runtime can't run, and tools that nothing awaits, by the syntax tree.

Only what is certain to fail is named: a model that is told of what would have worked writes it again for nothing.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_utilities.programs.stubs import MODULES

if TYPE_CHECKING:
    pass

MAX_CODE = 50_000
"""Characters of a program, whose types are checked in half a second."""
MAX_PROBLEMS, MAX_SAID, _MAX_DOTS = 20, 600, 4


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong at a line of a program, which is counted from 1 on."""

    line: int
    text: str


def unsupported(code: str, tools: Collection[str] = ()) -> list[Problem]:
    """Return what Monty's type checker lets pass and its runtime doesn't, and calls of tools that nothing awaits.

    A program that is too long, or nested too deeply to be read, has that one problem. Syntax errors are left to the
    type checker, as Monty reads newer Python than this may be.

    Args:
        tools: Python names of tools.
    """
    tree = tree_of(code)
    if isinstance(tree, Problem):
        return [tree]
    program = Program.of(tree, code, frozenset(tools))
    found = {
        (node.lineno, text)
        for node in program.nodes
        if isinstance(node, ast.stmt | ast.expr | ast.alias)
        for rule in _RULES.get(type(node), ())
        for text in rule(node, program)
    }
    return [Problem(line, text[:MAX_SAID]) for line, text in sorted(found)[:MAX_PROBLEMS]]


def tree_of(code: str) -> ast.Module | Problem:
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
class Program:
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
    def of(cls, tree: ast.Module, code: str, tools: frozenset[str] = frozenset()) -> Program:
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


def _module(node: Any, program: Program) -> Iterator[str]:
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


def _class(node: Any, program: Program) -> Iterator[str]:
    if node.bases or node.keywords:
        yield "a class can't inherit: raise ValueError or RuntimeError, and use dicts, or a @dataclass"
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.decorator_list:
            yield "decorators of methods are not supported: use a method, or a function outside of the class"


def _call(node: Any, program: Program) -> Iterator[str]:
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


def _calls_tool(node: ast.AST, program: Program) -> bool:
    """Return whether an argument is a function that calls a tool, or a tool."""
    value = node.value if isinstance(node, ast.keyword) else node
    if isinstance(value, ast.Name):
        return value.id in program.tools
    names = (each.func for each in ast.walk(value) if isinstance(each, ast.Call))
    return isinstance(value, ast.Lambda) and any(isinstance(x, ast.Name) and x.id in program.tools for x in names)


def _is_lost(call: ast.Call, program: Program) -> bool:
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


def _attribute(node: Any, program: Program) -> Iterator[str]:
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


def _name(node: Any, program: Program) -> Iterator[str]:
    if node.id in _ABSENT_NAMES - program.bound:
        yield f"there is no {node.id}"


def _comprehension(node: Any, program: Program) -> Iterator[str]:
    if any(each.is_async for each in node.generators):
        yield "asynchronous comprehensions are not supported: loop over a list"


def _never(text: str) -> tuple[Callable[[Any, Program], Iterable[str]], ...]:
    return (lambda node, program: (text,),)


_RULES: dict[type[ast.AST], tuple[Callable[[Any, Program], Iterable[str]], ...]] = {
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
