"""The seam: all that features reach of the server stands in `Host`, and no feature assigns into what is not its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from agent_utilities import Host
from agent_utilities.seam.host import Operator

PACKAGE = Path(__file__).parents[2] / "agent_utilities"
ROOMS = ("access", "context", "fleet", "gateway", "page", "query", "search", "usage")
FILES = [path for room in ROOMS for path in sorted((PACKAGE / room).rglob("*.py")) if "upstreams" not in path.parts]
_HOSTS = ("host", "_host")


def is_host(node: ast.expr) -> bool:
    """Whether an expression is `host`, `self.host` or `self._host`."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in _HOSTS


def paths_in(tree: ast.AST) -> Iterator[str]:
    """Yield what is reached of a host, such as `operator.settings`."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_host(node.value):
            if node.attr == "operator" and id(node) in inner:
                continue
            yield node.attr
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
            if node.value.attr == "operator" and is_host(node.value.value):
                yield f"operator.{node.attr}"


def test_features_reach_what_the_host_has_and_nothing_else() -> None:
    has = {name for name in vars(Host) if not name.startswith("_")}
    has |= {f"operator.{name}" for name in vars(Operator) if not name.startswith("_")}
    reached = {(path.name, each) for path in FILES for each in paths_in(ast.parse(path.read_text(encoding="utf-8")))}
    # `Entered` has the server of a request, to be compared, and browsers' hosts have that name too.
    assert {(name, each) for name, each in reached if each not in has} == set()
    assert len({each for _, each in reached}) <= 25


def test_no_feature_assigns_into_the_host_or_another_feature() -> None:
    assigned = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) else ():
                if isinstance(target, ast.Attribute) and is_host(target.value):
                    assigned.append((path.name, target.attr))
    assert assigned == []
