"""Tables of the docs, and the diagram of the rooms, made from the code; `python -m tests.docs.tables` writes them."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise
from pathlib import Path

from pydantic import SecretStr

from agent_utilities.selection.channels import FIELDS, Field
from agent_utilities.selection.merge import SEARCHING
from agent_utilities.settings import Settings, variable
from tests.docs.house import house
from tests.docs.transcripts import approvals, programs, results

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
REFERENCE = ROOT / "docs/reference"
DESIGN = ROOT / "docs/design.md"
TOOL_SEARCH = ROOT / "docs/tool-search.md"


def channels() -> str:
    """The table of selection fields by channel."""
    rows = [
        "| field | env | CLI | URL query, `_meta` | header | every name, in each style |",
        "|---|---|---|---|---|---|",
    ]
    rows += [f"| {_title(field)} | {_cells(field)} |" for field in FIELDS]
    return "\n".join(rows)


def tool_search() -> str:
    """The table of the settings of tool search."""
    rows = ["| env | CLI | URL query, `_meta` | header | what it does |", "|---|---|---|---|---|"]
    names = {*SEARCHING, "pins"}
    rows += [f"| {_spellings(field)} | {field.help} |" for field in FIELDS if field.name in names]
    return "\n".join(rows)


def settings() -> str:
    """The table of the operator's other settings."""
    rows = ["| variable | default | what it does |", "|---|---|---|"]
    does = _docstrings(Settings)
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        default = "" if default in ({}, []) or isinstance(default, SecretStr) else default
        rows.append(f"| `{variable(name)}` | `{default}` | {does[name]} |")
    return "\n".join(rows)


TABLES = {
    "approvals": approvals,
    "channels": channels,
    "house": house,
    "programs": programs,
    "results": results,
    "settings": settings,
    "tool_search": tool_search,
}
PAGES = {
    REFERENCE / "channels.md": ("channels",),
    REFERENCE / "settings.md": ("settings",),
    DESIGN: ("house",),
    TOOL_SEARCH: ("tool_search",),
    ROOT / "docs/approvals.md": ("approvals",),
    ROOT / "docs/programs.md": ("programs",),
    ROOT / "docs/results.md": ("results",),
}
"""The pages, each with the tables that are on it."""


def with_tables(text: str) -> str:
    """Return a page with every marked table made anew."""

    def made(match: re.Match[str]) -> str:
        return f"{match[1]}\n{TABLES[match[2]]()}\n{match[3]}"

    return re.sub(r"(<!-- table: (\w+) -->)\n.*?(<!-- end -->)", made, text, flags=re.DOTALL)


def _docstrings(model: type) -> dict[str, str]:
    """What stands under each field of a class."""
    (defined,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(defined, ast.ClassDef)
    return {
        field.target.id: " ".join(ast.literal_eval(said.value).split())
        for field, said in pairwise(defined.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(said, ast.Expr)
    }


def _title(field: Field) -> str:
    title = {"read_only": "read-only", "top_k": "top_k"}.get(field.name, field.name.replace("_", " "))
    is_bound = field.name in (
        "allow_tools",
        "deny_tools",
        "allow_tags",
        "deny_tags",
        "read_only",
        "no_destructive",
        "profile",
    )
    return title if is_bound else f"{title} (preference)"


def _cells(field: Field) -> str:
    return f"{_spellings(field)} | {', '.join(f'`{stem}`' for stem in field.stems)}"


def _spellings(field: Field) -> str:
    """The preferred spelling in each channel; blank where a field can't be given."""
    preferred = [field.spellings(channel)[:1] for channel in ("env", "cli", "query", "header")]
    return " | ".join(f"`{spelling[0]}`" if spelling else "" for spelling in preferred)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
