"""No room but `compat` touches what is private of another library, and what stands there is counted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import agent_utilities
from agent_utilities.compat import Part
from tests.every import every

PACKAGE = Path(agent_utilities.__file__).parent
ROOM = PACKAGE / "compat"
MOST = 18
"""Private names that the room uses; it may fall, and the number with it."""
_OWN = {"os._exit", "_replace", "_make", "_asdict", "_fields"}
"""What Python itself documents."""
_IN_TEXT = re.compile(r"(?:^|[.:])(_[a-z]\w+)")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.AST) -> set[str]:
    """Return the names that code gives to things itself: classes, functions, variables, fields."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                names.add(name)
    return names


def private_names(tree: ast.AST, own: set[str] = frozenset()) -> Iterator[tuple[int, str]]:  # type: ignore[assignment]
    """Yield what is private of others in a file's code: modules, names, attributes, and texts that name one."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith("agent_utilities"):
                yield from ((line, module) for part in module.split(".") if _is_private(part))
                yield from ((line, each.name) for each in names if _is_private(each.name))
            case ast.Import(names=names):
                yield from ((line, each.name) for each in names if any(map(_is_private, each.name.split("."))))
            case ast.Attribute(attr=name) if _is_private(name) and name not in own:
                if name not in _OWN and ast.unparse(node) not in _OWN:
                    yield line, name
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                if _is_private(name) and name not in own:
                    yield line, name
            case ast.Call(func=ast.Name(id="Part"), args=[ast.Constant(value=str(place)), *_]):
                yield from ((line, name) for name in _IN_TEXT.findall(place))


def files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_no_other_room_touches_what_is_private_of_another_library() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files()}
    own = set().union(*map(own_names, trees.values()))
    found = {
        f"{path.relative_to(PACKAGE)}:{line}": name
        for path, tree in trees.items()
        if ROOM not in path.parents
        for line, name in private_names(tree, own)
    }
    assert found == {}


def used() -> set[str]:
    """Return the private names and modules that the room uses."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in ROOM.glob("*.py")]
    found = {name for tree in trees for _, name in private_names(tree, own_names(tree))}
    return {next(part for part in name.split(".") if _is_private(part)) for name in found}


def test_the_room_uses_no_more_of_them_than_it_did() -> None:
    assert len(used()) <= MOST, sorted(used())


def test_each_is_told_of_by_a_part() -> None:
    modules = [import_module(f"agent_utilities.compat.{path.stem}") for path in ROOM.glob("[!_]*.py")]
    values = [value for module in modules for value in vars(module).values() if isinstance(value, tuple)]
    parts = [each for value in values for each in value if isinstance(each, Part)]
    assert used() - {name for part in parts for name in _IN_TEXT.findall(part.place)} == set()
    assert [part.place for part in parts if not part.is_there] == []
    assert all(part.why and part.ends for part in parts)


@every(
    ("code", "name"),
    [
        ("from mcp.client._probe import negotiate_auto", "mcp.client._probe"),
        ("import mcp.shared._httpx_utils as utils", "mcp.shared._httpx_utils"),
        ("from fastmcp.server.context import _current_transport", "_current_transport"),
        ("server._docket.redis()", "_docket"),
        ("self.server._docket", "_docket"),
        ("getattr(server, '_docket', None)", "_docket"),
        ("super()._get_entry()", "_get_entry"),
        ("Part('fastmcp.server.server:FastMCP._docket', '', '')", "_docket"),
    ],
)
def test_whatever_way_one_is_touched_it_is_seen(code: str, name: str) -> None:
    assert name in [found for _, found in private_names(ast.parse(code))]
