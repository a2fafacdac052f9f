"""What docs/operators.md says of what installs is what is installed here, but for what versions come to."""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
TOLERANCE = 0.15

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="wheels of other systems have other sizes"
)


def installed_with(name: str) -> dict[str, float]:
    """Return the size in MB of a distribution and of each that it needs here, extras that are asked for with it."""
    sizes, seen, todo = dict[str, float](), set[Requirement](), [Requirement(name)]
    while todo:
        if (wanted := todo.pop()) in seen:
            continue
        seen.add(wanted)
        found = distribution(wanted.name)
        files = [Path(str(each.locate())) for each in found.files or [] if each.suffix != ".pyc"]
        sizes[canonicalize_name(wanted.name)] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
        for needed in map(Requirement, found.requires or []):
            if needed.marker is None or any(needed.marker.evaluate({"extra": e}) for e in {"", *wanted.extras}):
                todo.append(needed)
    return sizes


def test_how_many_and_how_large_in_all() -> None:
    told = re.search(r"(\d+) packages, (\d+) MB.*?FastMCP alone is (\d+) and (\d+) MB", TEXT, re.DOTALL)
    assert told is not None
    ours, of_fastmcp = installed_with("agent-utilities"), installed_with("fastmcp")
    here = [len(ours), sum(ours.values()), len(of_fastmcp), sum(of_fastmcp.values())]
    assert [int(each) for each in told.groups()] == [pytest.approx(each, rel=TOLERANCE) for each in here]


def test_each_of_the_large_ones_is_named_with_its_size() -> None:
    rows = {name: float(size) for name, size in re.findall(r"^\| `([\w-]+)` \| ([\d.]+) \|", TEXT, re.MULTILINE)}
    ours, of_fastmcp = installed_with("agent-utilities"), installed_with("fastmcp")
    large = {name: size for name, size in ours.items() if size >= 2.5 and name not in of_fastmcp}
    assert rows.keys() >= large.keys() - {"agent-utilities"}
    assert rows == {name: pytest.approx(ours[name], rel=TOLERANCE, abs=0.5) for name in rows}


def test_what_is_required_is_imported() -> None:
    modules = {"pystemmer": "Stemmer", "pyyaml": "yaml", "python-dotenv": "dotenv", "py-key-value-aio": "key_value"}
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "agent_utilities").rglob("*.py"))
    lines = [Requirement(line) for line in distribution("agent-utilities").requires or []]
    needed = {each.name.lower() for each in lines if not (each.marker and "extra" in str(each.marker))}
    called = {name: modules.get(name, name.removesuffix("-api").replace("-", "_")) for name in needed}
    unused = {name for name, it in called.items() if not re.search(rf'(?:from|import) {it}\b|"{it}"', code)}
    assert unused == {"httptools"}  # uvicorn takes it where it is there
