"""What the house weighs, and how far a request goes in it: `python3 tasks.py gauges` prints each gauge and its ratchet.

`ratchets.toml` has the most that each may be; `test_ratchets.py` fails where one is more. `--lower` writes down what is
less by now.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agent_utilities"
RATCHETS = Path(__file__).with_name("ratchets.toml")
HOST = ("seam", "server", "server_factory.py")
NOT_THE_SERVER = frozenset(
    {"CallRecord", "Completions", "Pending", "QuotaSource", "Reporting", "StartLink", "UnfitCount", "WireMiddleware"},
)
"""Protocols of the host that stand for something else; any other is taken to stand for the server."""
SESSION_WORDS = re.compile(r"\b(?:SessionView|SearchSession|SessionTrail|Taken)\b")
_TOWER = """
import json, sys
from fastmcp import FastMCP
before = set(sys.modules)
from agent_utilities import create_mcp_server
own = sum(name.partition(".")[0] == "agent_utilities" for name in sys.modules)
from agent_utilities import create_gateway
def above(server):
    classes = type(server).__mro__
    return [each for each in classes[: classes.index(FastMCP)] if each.__module__.startswith("agent_utilities")]
towers = [above(create_mcp_server("x")), above(create_gateway({"mcpServers": {"x": {"command": "x"}}}))]
names = [name for name in dir(FastMCP) if name not in dir(object)]
twice = [sum(sum(name in vars(each) for each in tower) > 1 for name in names) for tower in towers]
print(json.dumps([own, *map(len, towers), max(twice)]))
"""


@cache
def sources() -> Mapping[str, str]:
    """Return the text of each file of the package, by its path in it."""
    return {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def code_lines(source: str) -> int:
    """Return how many lines hold code or an import: no blank, comment or docstring."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.splitlines(), 1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and at not in prose for at, line in lines)


def imported(source: str) -> Iterator[str]:
    """Yield the module of each import statement of a file, wherever it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def protocols(source: str) -> Iterator[str]:
    """Yield the names of the protocols that a file defines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases):
            yield node.name


def is_below(name: str, places: tuple[str, ...]) -> bool:
    """Whether a file or module stands in one of some places, or is one of them."""
    separator = "/" if "/" in name or name.endswith(".py") else "."
    return any(name == place or name.startswith(f"{place}{separator}") for place in places)


@cache
def tower() -> list[int]:
    """Return own modules at import, the classes above FastMCP of a server and a gateway, and what two override."""
    done = subprocess.run([sys.executable, "-c", _TOWER], cwd=ROOT, capture_output=True, text=True, check=True)
    found: list[int] = json.loads(done.stdout)
    return found


@cache
def way() -> dict[str, Any]:
    """Return what a request by words, and a call, enter and are handed, as traced in a process of its own."""
    command = [sys.executable, "-m", "tests.architecture.trace"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["tools"], "the traced request listed nothing: the trace says nothing"
    return found


def server_protocols() -> list[str]:
    """Return the protocols of the host that stand for the server."""
    of_host = [source for file, source in sources().items() if is_below(file, HOST)]
    return [name for source in of_host for name in protocols(source) if name not in NOT_THE_SERVER]


GAUGES: Mapping[str, Callable[[], int]] = {
    "lines": lambda: sum(len(source.splitlines()) for source in sources().values()),
    "code_lines": lambda: sum(map(code_lines, sources().values())),
    "files": lambda: len(sources()),
    "files_under_60_lines": lambda: sum(len(source.splitlines()) < 60 for source in sources().values()),
    "own_modules_at_import": lambda: tower()[0],
    "classes_above_fastmcp_of_a_server": lambda: tower()[1],
    "classes_above_fastmcp_of_a_gateway": lambda: tower()[2],
    "fastmcp_methods_overridden_twice": lambda: tower()[3],
    "protocols_for_the_server": lambda: len(server_protocols()),
    "session_words": lambda: sum(len(SESSION_WORDS.findall(source)) for source in sources().values()),
    "files_a_query_enters": lambda: len(way()["entered"]),
    "files_handed_its_words": lambda: len(way()["handed"]),
    "files_a_gateway_call_enters": lambda: len(way()["called"]),
    "times_its_name_is_judged": lambda: int(way()["n_judged"]),
}


def ratchets() -> dict[str, dict[str, int]]:
    """Return each gauge's `most`, and its `goal`."""
    return tomllib.loads(RATCHETS.read_text(encoding="utf-8"))


def main(argv: list[str]) -> None:
    """Print every gauge beside its ratchet and goal; with `--lower` write down those that are less by now."""
    print(f"{'':38}{'here':>8}{'most':>8}{'goal':>8}")
    text = RATCHETS.read_text(encoding="utf-8")
    for name, held in ratchets().items():
        here = GAUGES[name]()
        note = "  MORE" if here > held["most"] else "  may be lowered" if here < held["most"] else ""
        print(f"{name:38}{here:>8,}{held['most']:>8,}{held['goal']:>8,}{note}")
        if here < held["most"]:
            text = re.sub(rf"^({name} = {{ most = )\d+", rf"\g<1>{here}", text, flags=re.MULTILINE)
    if "--lower" in argv:
        RATCHETS.write_text(text, encoding="utf-8")
    traced = ("handed the words", "handed"), ("entered by a query", "entered"), ("entered by a call", "called")
    for title, files in ((title, way()[name]) for title, name in traced):
        print(f"\n{title}, in this order:\n  " + "\n  ".join(f"{file}: {function}" for file, function in files.items()))
    for title, found in (("protocols that stand for the server", server_protocols()),):
        print(f"\n{title}: {', '.join(found) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1:])
