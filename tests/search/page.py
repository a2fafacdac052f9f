"""The examples of `docs/tool-router.md`."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

PAGE = Path(__file__).parents[2] / "docs" / "tool-router.md"


def example(name: str) -> SimpleNamespace:
    """Return what a marked example of the page defines."""
    match = re.search(rf"<!-- example: {re.escape(name)} -->\n```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert match is not None, f"the page has no example {name!r}"
    defined: dict[str, object] = {"__name__": name}
    exec(compile(match[1], f"{PAGE.name}: {name}", "exec"), defined)
    return SimpleNamespace(**defined)
