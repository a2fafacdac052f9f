"""Every command in a shell block of the README and the pages is one that its program takes, options and all."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from agent_utilities.cli.app import app
from agent_utilities.server.command_line.options import Options, documented, options_type
from tests.docs.tables import README
from tests.every import every

ROOT = README.parent
PAGES = (README, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "agents").glob("*/README.md")))
SHELL = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
RUN_BY = re.compile(r"(?:[A-Z_]+=\S+ )*(?:uvx --from \S+ |uv run --no-project --with \. )?")
AGENTS = ("git-agent-mcp", "filesystem-agent-mcp", "logs-agent-mcp")


def commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the words of each command, and where it stands."""
    for page in PAGES:
        for block in SHELL.findall(page.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(RUN_BY.sub("", line, count=1), comments=True)
                if words:
                    yield str(page.relative_to(ROOT)), words[: words.index("|")] if "|" in words else words


COMMANDS = list(commands())


def taken(command: Any, words: list[str], parent: Any = None) -> None:
    """Parse words down to the last command in them, and run none of it."""
    context = command.make_context(command.name or "agent-utilities", [*words], parent, obj=SimpleNamespace())
    if hasattr(command, "commands"):
        if rest := [*context._protected_args, *context.args]:
            _, inner, more = command.resolve_command(context, rest)
            taken(inner, more, context)


def server_command() -> Any:
    made = typer.Typer()
    made.command()(options_type(Options))
    return documented(typer.main.get_command(made))


@every(("page", "words"), [each for each in COMMANDS if each[1][0] == "agent-utilities"])
def test_a_command_of_ours_takes_what_the_page_gives_it(page: str, words: list[str]) -> None:
    taken(documented(typer.main.get_command(app)), words[1:])


@every(("page", "words"), [each for each in COMMANDS if each[1][0] in AGENTS])
def test_a_servers_command_line_takes_what_the_page_gives_it(page: str, words: list[str]) -> None:
    taken(server_command(), words[1:])


@every(("page", "words"), [each for each in COMMANDS if each[1][:2] == ["python3", "tasks.py"]])
def test_a_task_is_one(page: str, words: list[str]) -> None:
    assert re.search(rf"^def {words[2].replace('-', '_')}\(", Path(ROOT / "tasks.py").read_text(), re.MULTILINE)


def test_a_misspelt_option_would_be_noticed() -> None:
    for words in (["gateway", "check", "--jsn"], ["connect", "cursor", "--gatway", "x"], ["tokens"]):
        with pytest.raises(typer.TyperException):
            taken(documented(typer.main.get_command(app)), words)


def test_nothing_else_is_asked_for_that_a_stranger_may_not_have() -> None:
    known = {"agent-utilities", "curl", "export", "pip", "python3", "uv", *AGENTS}
    assert sorted({words[0] for _, words in COMMANDS} - known) == []
