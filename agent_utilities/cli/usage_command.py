"""`agent-utilities usage`: its commands. What they do is imported when one runs, for `--help` needs none of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

usage_app = typer.Typer(invoke_without_command=True)

File = Annotated[
    Path | None,
    typer.Option(
        help="The log, an SQLite file; MCP_USAGE_FILE, or all in your state folder, where none is named.",
        show_default=False,
    ),
]


@usage_app.callback()
def usage(
    context: typer.Context,
    file: File = None,
    server: Annotated[str | None, typer.Option(help="Show this server or gateway alone.")] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How many days back, with today.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what was called, what was listed and never called, and searches that found nothing."""
    if context.invoked_subcommand is None:
        from agent_utilities.cli.usage import show_usage

        show_usage(file, server=server, days=days, as_json=as_json)


@usage_app.command()
def forget(
    file: File = None,
    server: Annotated[str | None, typer.Option(help="Forget this server or gateway alone.")] = None,
    tool: Annotated[str | None, typer.Option(help="Forget this tool alone.")] = None,
    before: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d"], metavar="DATE", help="Forget what is older, such as 2026-01-31, in UTC."),
    ] = None,
    older_than: Annotated[
        int | None, typer.Option(min=0, max=36_500, metavar="DAYS", help="Forget what is older than so many days.")
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Forget requests alone: calls stay without them.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Forget everything; a log that is damaged is deleted.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete from the log, down to its bytes; servers may go on writing it. Options narrow each other."""
    from agent_utilities.cli.usage import Asked, forget_usage

    forget_usage(file, Asked(server, tool, before, older_than, words, everything), yes=yes)
