"""How a panel is written: HTML by Jinja2, its tables as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import JSONResponse, Response

from agent_utilities.features.page.panel import PageError, Table
from agent_utilities.upstream.configuration.config_text import shown

FOLDER = Path(__file__).parent
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _visible(value: Any) -> Any:
    """Return a text with its control characters, and those that turn the direction of writing, as escapes."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return (
        value if value.isprintable() and value.isascii() else "\n".join(shown(line, None) for line in value.split("\n"))
    )


def _n(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}".replace("-0.000", "0.000")


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def environment() -> Environment:
    """Return what writes HTML: every text is escaped, and can neither hide nor act."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=_visible,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(n=_n, at=_at)
    return made


def as_json(tables: Mapping[str, Table]) -> Response:
    """Return all tables of a panel, each a list of objects."""
    rows = {name: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for name, table in tables.items()}
    return JSONResponse(rows)


def as_csv(tables: Mapping[str, Table], name: str) -> Response:
    """Return one table of a panel; no cell of it is a formula to a spreadsheet.

    Raises:
        PageError: there is no table of that name.
    """
    if name not in tables:
        raise PageError(f"no table of that name: {name!r}; there are {', '.join(tables) or 'none'}")
    written = io.StringIO()
    rows = csv.writer(written)
    for row in (tables[name].columns, *tables[name].rows):
        rows.writerow([_cell(value) for value in row])
    headers = {"content-disposition": f'attachment; filename="{name}.csv"'}
    return Response(written.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value
