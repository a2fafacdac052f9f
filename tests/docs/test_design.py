"""The contract names files that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_file_that_it_names_is_there() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", text))
    assert len(named) > 20
    assert {
        name for name in named if not any((folder / name).is_file() for folder in (ROOT / "agent_utilities", ROOT))
    } == set()
