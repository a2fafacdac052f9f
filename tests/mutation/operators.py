"""The small defects that may be put into a file: each a node of its syntax tree, and what stands there instead.

Never in what no behaviour hangs on: docstrings, annotations, decorators, log texts, `__repr__`, help texts and what
only a type checker reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log", "warn"}
_WORDS_ONLY = {"help", "description", "title", "stacklevel", "rich_help_panel", "doc"}
_CHECKS_ONLY = {("zip", "strict"), ("Thread", "name"), ("create_task", "name"), ("TemporaryDirectory", "prefix")}
"""Arguments that change nothing in code that is right: a check of equal lengths, a name for a person."""
_LARGEST = 10
"""Up to here a number counts or indexes; above it most are limits and times, where one more is no defect."""


@dataclass(frozen=True, order=True)
class Mutant:
    """One defect.

    Args:
        file: the file, from the root.
        line: where it stands, from 1.
        statement: where the statement begins that it stands in.
        span: the bytes that it replaces, as offsets from the file's start.
        new: what it is replaced by.
        what: what was done, in a few words.
    """

    file: str
    line: int
    statement: int
    span: tuple[int, int]
    new: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}  {self.what}"

    def applied(self, source: bytes) -> bytes:
        """Return a file's bytes with the defect in them."""
        begin, end = self.span
        return source[:begin] + self.new.encode() + source[end:]

    def changes(self, source: bytes) -> bool:
        """Whether the file still is Python with the defect in it, and another than before."""
        try:
            changed = ast.parse(self.applied(source))
            compile(changed, self.file, "exec")
        except (SyntaxError, ValueError):
            return False
        return ast.dump(changed) != ast.dump(ast.parse(source))


def mutants(file: str, source: bytes) -> list[Mutant]:
    """Return every defect that may be put into a file, in the order of their places."""
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for statement, node, new, what in _changes(tree, 0):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(file, node.lineno, statement, (begin, end), new, what))
    return sorted(set(found))


def _changes(node: ast.AST, statement: int) -> Iterator[tuple[int, ast.expr | ast.stmt, str, str]]:
    """Yield what may be replaced in a node and below it: its statement's line, itself, by what, and in words."""
    if isinstance(node, ast.stmt):
        statement = node.lineno
    changes = _of_statement(node) if isinstance(node, ast.stmt) else _of_expression(node)
    yield from ((statement, *change) for change in changes)
    for child in _below(node):
        yield from _changes(child, statement)


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node's children that behaviour hangs on."""
    match node:
        case ast.FunctionDef(name="__repr__") | ast.AsyncFunctionDef(name="__repr__") | ast.JoinedStr():
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.ClassDef():
            yield from node.body
        case ast.AnnAssign():
            yield from [node.value] if node.value else []
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            yield from node.orelse
        case ast.Call() if _is_log(node):
            return
        case ast.Call():
            yield from [node.func, *node.args, *(keyword.value for keyword in node.keywords if _matters(node, keyword))]
        case _:
            yield from ast.iter_child_nodes(node)


def _of_statement(node: ast.stmt) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    match node:
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            truth = isinstance(value, ast.Compare | ast.BoolOp) or _is_not(value) or _is_bool(value)
            new = f"return not ({ast.unparse(value)})" if truth else "return None"
            yield node, new, f"{_short(node)} → {_cut(new)}"
        case ast.Expr(value=ast.Call() as call) if not _is_log(call):
            yield node, "pass", f"deleted: {_short(node)}"
        case ast.Expr(value=ast.Await() as value):
            yield node, "pass", f"deleted: {_short(value)}"
        case ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue() | ast.Delete():
            yield node, "pass", f"deleted: {_short(node)}"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass", f"deleted: {_short(node)}"
        case ast.If() if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            for always in ("True", "False"):
                yield node.test, always, f"if {_short(node.test)} → if {always}"


def _of_expression(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    for new in _instead(node):
        assert isinstance(node, ast.expr)
        yield node, f"({ast.unparse(new)})", f"{_short(node)} → {_short(new)}"


def _instead(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                operators = [*node.ops[:at], _COMPARED[type(operator)](), *node.ops[at + 1 :]]
                yield ast.Compare(node.left, operators, node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
        case ast.IfExp():
            yield from (node.body, node.orelse)
        case ast.Constant():
            yield from _other_constants(node.value)
        case ast.Call() if not _is_log(node):
            yield from _with_fewer_arguments(node)


def _other_constants(value: object) -> Iterator[ast.expr]:
    if isinstance(value, bool):
        yield ast.Constant(not value)
    elif isinstance(value, int) and value <= _LARGEST:
        yield from (ast.Constant(value + 1), ast.Constant(value - 1))


def _with_fewer_arguments(call: ast.Call) -> Iterator[ast.expr]:
    for at, keyword in enumerate(call.keywords):
        if _matters(call, keyword):
            yield ast.Call(call.func, call.args, [*call.keywords[:at], *call.keywords[at + 1 :]])
    if len(call.args) > 1:
        yield ast.Call(call.func, call.args[:-1], call.keywords)


def _is_log(node: ast.Call) -> bool:
    return _called(node) in _LOGS


def _matters(call: ast.Call, keyword: ast.keyword) -> bool:
    return keyword.arg not in _WORDS_ONLY and (_called(call), keyword.arg) not in _CHECKS_ONLY


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_bool(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _is_not(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _short(node: ast.AST) -> str:
    return _cut(ast.unparse(node))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:59]}…"
