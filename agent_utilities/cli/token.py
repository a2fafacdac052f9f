"""`agent-utilities token`: tokens for a small team, in a file that keeps their hashes."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agent_utilities.access.rules import LOCAL, rules_of
from agent_utilities.access.token_file import new_token, read_tokens, revoke_token
from agent_utilities.errors import InputError
from agent_utilities.runtime.process_io import expanded
from agent_utilities.selection.profiles import EVERYTHING
from agent_utilities.server.command_line.terminal import AsJson, NamesTable, plain, terminal
from agent_utilities.server.surface.operator import Operator
from agent_utilities.settings_file import settings_of, user_folder

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Make, list and revoke tokens that let callers in.")

File = Annotated[Path | None, typer.Option("--file", metavar="FILE")]


@app.command()
def new(name: str, file: File = None, profile: str = "", expires: str = "") -> None:
    """Make a token and print it, once: the file keeps its hash alone.

    Args:
        name: Whose it is; who calls with it is known by this.
        file: The file of tokens; that of MCP_AUTH_TOKENS, or one in your settings folder, where none is named.
        profile: Bound whoever has it to this profile of your settings file, beside any rule.
        expires: How long it is taken, such as 90d, 12h or 30m; for ever where not given.
    """
    path, operator = _file(file), Operator()
    if profile and profile != EVERYTHING and not operator.files.has(profile):
        raise InputError("no such profile", profile, "option --profile", "name one of your settings file's [profiles]")
    print(new_token(path, name, profile, expires))
    rules = rules_of(operator.settings, operator.files)
    if rules.rules and rules.access({"iss": LOCAL, "sub": name, "client": name}).rule is None:
        print(f"WARNING: no rule of access fits {name}, so this token permits nothing: add one", file=sys.stderr)
    print(f"kept its hash in {path}; serve with --auth-tokens {path}", file=sys.stderr)


@app.command("list")
def list_(file: File = None, as_json: AsJson = False) -> None:
    """Show whose tokens a file has; none of them can be shown again.

    Args:
        file: The file of tokens; as for new.
    """
    path = _file(file)
    if not path.exists():
        raise InputError("no such file", str(path), "option --file", "make one with agent-utilities token new NAME")
    tokens = read_tokens(path).tokens
    if as_json:
        print(json.dumps([token.model_dump(mode="json", exclude={"sha256"}) for token in tokens]))
        return
    table = NamesTable(f"{plain(str(path))}: whom these tokens let in", "name", "profile", "made", "until")
    for token in tokens:
        until = f"{token.expires or 'no end'}{' (over)' if token.is_over() else ''}"
        table.add_row(plain(token.name), plain(token.profile or "-"), str(token.created), until)
    terminal().print(table)


@app.command()
def revoke(name: str, file: File = None) -> None:
    """Take a token out of a file; servers that took it refuse it within a second.

    Args:
        name: Whose it is.
        file: The file of tokens; as for new.
    """
    path = _file(file)
    revoke_token(path, name)
    print(f"revoked {name} in {path}", file=sys.stderr)


def _file(path: Path | None) -> Path:
    if path is not None:
        return expanded(path)
    named = settings_of(os.environ).auth_tokens
    return expanded(named) if named else user_folder() / "tokens.json"
