"""No test runs the benchmarks: mypy knows the names in their code (`types`), and these tests those in their strings."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

from tests.every import every

ROOT = Path(__file__).parents[2]
BENCHMARKS = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "benchmarks").glob("*.py"))}
RELEASED = {"agent_utilities.mcp.server_factory", "agent_utilities.knowledge_graph.core.engine"}
"""Modules of the released package, which some benchmarks load in an environment of its own."""
_OURS = re.compile(r"\b(agent_utilities(?:\.\w+)*)(?: import (\w+))?")
_ROOT = "Path(__file__).parents[1] / "


def named(source: str) -> Iterator[str]:
    """Yield the dotted names of our package in a script's strings: paths to patch, statements for other processes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for module, name in _OURS.findall(node.value):
                if module not in RELEASED:
                    yield f"{module}.{name}" if name else module


def is_there(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something in one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def hidden(source: str) -> Iterator[str]:
    """Yield what hides names from mypy: our modules imported by a string, objects asked whether they have a name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called == "hasattr" or (called == "import_module" and any(named(ast.unparse(node)))):
                yield ast.unparse(node)


def paths(source: str) -> Iterator[str]:
    """Yield the paths below the project's root that a script makes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and (written := ast.unparse(node)).startswith(_ROOT):
            yield "/".join(re.findall(r"'([^']+)'", written))


@every("source", BENCHMARKS.values(), ids=BENCHMARKS)
def test_every_name_of_ours_in_a_string_is_there(source: str) -> None:
    assert [name for name in named(source) if not is_there(name)] == []


@every("source", BENCHMARKS.values(), ids=BENCHMARKS)
def test_every_other_name_of_ours_is_seen_by_mypy(source: str) -> None:
    assert list(hidden(source)) == []


@every("source", BENCHMARKS.values(), ids=BENCHMARKS)
def test_every_file_that_a_benchmark_starts_is_there(source: str) -> None:
    assert [path for path in paths(source) if not (ROOT / path).exists()] == []


def test_names_that_are_gone_are_told_of() -> None:
    gone = """
patch("agent_utilities.access.record.record.n_bits_of", None)
program = "from agent_utilities import create_server"
server = Path(__file__).parents[1] / "tests" / "mcp" / "tiny_server.py"
importlib.import_module("agent_utilities.server.stopping").calm_collector()"""
    assert {name for name in named(gone) if not is_there(name)} == {
        "agent_utilities.access.record.record.n_bits_of",
        "agent_utilities.create_server",
    }
    assert len(list(hidden(gone))) == 1
    assert "tests/mcp/tiny_server.py" in paths(gone)
