"""`agent-utilities context`: what of a running server is in an agent's prompt, and what that costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from agent_utilities.catalog.context import (
    DEFERRED,
    ESTIMATE,
    ContextReport,
    ContextRow,
    context_report,
    n_tokens,
    text_for_models,
)
from agent_utilities.cli.asking import ServerError, ask, pairs, server_url
from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import expanded
from agent_utilities.server.command_line.terminal import AsJson, NamesTable, bar, plain, terminal

app = typer.Typer(add_completion=False)

_FILE = "tokenizer.json"
_STYLES = {
    "entry tools": "cyan",
    "pins": "blue",
    "attached": "green",
    "active": "magenta",
    "listed": "green",
    "instructions": "yellow",
    DEFERRED: "bright_black",
}
_BAR = 16
"""Columns of the longest bar; the table leaves bars out where names need their room."""


@app.command()
def context(
    url: str,
    header: list[str] | None = None,
    query: list[str] | None = None,
    model: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Ask a running server what of it is in an agent's prompt, and what that costs.

    Args:
        url: A running server, such as http://127.0.0.1:8001/mcp?tool_search=on.
        header: A header to send, as name=value; may be repeated.
        query: A URL query item to send, as key=value; may be repeated.
        model: Count with a model's tokenizer: its name for tiktoken, or a tokenizer.json.
    """
    server = server_url(url)
    tokenizer = tokenizer_of(model) if model is not None else None
    items = [*server.query, *pairs(query, "--query"), *([("definitions", "true")] if tokenizer else [])]
    route = f"{server.base}/context{server.tail}"
    body = ask(route, items, pairs(header, "--header"), "rows", "a context report")
    try:
        report = TypeAdapter(ContextReport).validate_python({**body, "active_names": body["active"]})
        if tokenizer is not None:
            report = context_report(
                [(each["section"], each["server"], each["definition"]) for each in body["definitions"]],
                body["instructions"],
                server=body["server"],
                max_active=report.max_active,
                n_evicted=report.n_evicted,
                undeferred_instructions=body.get("undeferred_instructions"),
                count=tokenizer.count,
                tokenizer=tokenizer.name,
            )
        name, of_session = str(body["server"]), bool(body["of_session"])
    except (KeyError, TypeError, ValueError) as error:
        raise ServerError(f"{route!r} answered with no context report of ours: {error!r}") from None
    if as_json:
        print(json.dumps({"server": name, "of_session": of_session, **report.as_dict()}))
    else:
        _print(name, report, terminal())


def _print(name: str, report: ContextReport, console: Console) -> None:
    title = f"{plain(name)}: what is in this caller's prompt"
    table = NamesTable(title, "section", "server", "tools", "tokens", "", n_names=2)
    in_prompt = [row for row in report.rows if row.section != DEFERRED]
    deferred = [row for row in report.rows if row.section == DEFERRED]
    _add_rows(table, in_prompt, report, console)
    n_tools = sum(row.n_tools for row in in_prompt)
    table.add_row(*(Text(cell, "bold") for cell in ("in the prompt", "", f"{n_tools:,}", f"{report.total:,}", "")))
    table.add_line()
    _add_rows(table, deferred, report, console)
    console.print(table)
    saved = 1 - report.total / report.undeferred_tokens if report.undeferred_tokens else 0
    fewer = f", {100 * saved:.0f} % fewer than the {report.undeferred_tokens:,} of all tools" if saved > 0 else ""
    evicted = f"; {report.n_evicted} evicted so far" if report.n_evicted else ""
    console.print(plain(f"{report.line}{evicted}"))
    if report.active_names:
        console.print(plain(report.active_line))
    console.print(f"{report.total:,} tokens on every turn{fewer}")
    console.print(plain(f"counted by {report.tokenizer}"))


def _add_rows(table: NamesTable, rows: list[ContextRow], report: ContextReport, console: Console) -> None:
    """Add rows, each section's name once; all bars of a report are on one scale."""
    most = max((row.tokens for row in report.rows), default=0)
    section = ""
    for row in rows:
        style = _STYLES.get(row.section, "")
        chart = bar(row.tokens, most, _BAR, in_ascii=console.options.ascii_only)
        n_tools = f"{row.n_tools:,}" if row.n_tools else ""
        heading = Text("" if row.section == section else row.section, style)
        table.add_row(heading, plain(row.server), n_tools, f"{row.tokens:,}", Text(chart, style))
        section = row.section
    table.add_line()


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A function that counts tokens, and its name."""

    name: str
    count: Callable[[Mapping[str, Any] | str], int]


def tokenizer_of(model: str) -> Tokenizer:
    """Return the tokenizer of a model, or the estimate, whose name then says why it is no better."""
    path = expanded(model)
    try:
        if path.suffix == ".json" or path.is_dir():
            name, count = _from_file(path / _FILE if path.is_dir() else path)
        else:
            name, count = _from_tiktoken(model)
    except ModuleNotFoundError as error:
        return Tokenizer(f"{ESTIMATE} ({error.name} is not installed: pip install {error.name})", n_tokens)
    except LookupError as error:
        return Tokenizer(f"{ESTIMATE} ({error.args[0]})", n_tokens)
    # Tokenizers take valid UTF-8 alone: half a surrogate pair is counted as `?`.
    return Tokenizer(name, lambda shown: count(text_for_models(shown).encode("utf-8", "replace").decode()))


def _from_file(path: Path) -> tuple[str, Callable[[str], int]]:
    if not path.is_file():
        raise InputError("no such file", str(path), "option --model", f"give a {_FILE}, or a model's name")
    from tokenizers import Tokenizer as Loaded

    try:
        loaded = Loaded.from_file(str(path))
    except Exception as error:  # it raises no narrower one
        reason = " ".join(str(error).split())
        raise InputError(f"not a tokenizer ({reason})", str(path), "option --model", f"give a {_FILE}") from None
    return f"tokenizers, {path}", lambda text: len(loaded.encode(text, add_special_tokens=False).ids)


def _from_tiktoken(model: str) -> tuple[str, Callable[[str], int]]:
    tiktoken = import_module("tiktoken")
    try:
        encoding = tiktoken.encoding_for_model(model)
    except KeyError:
        raise LookupError(f"tiktoken knows no model {model!r}") from None
    except Exception as error:  # it downloads the vocabulary, which may fail in any way
        raise LookupError(f"tiktoken has no vocabulary for {model!r}: {type(error).__name__}") from None
    return f"tiktoken, {encoding.name}", lambda text: len(encoding.encode_ordinary(text))
