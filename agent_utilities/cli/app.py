"""The `agent-utilities` command: each of its commands is a module, which is imported when it is run."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.mcp.server_cli import quiet_for_gone_reader

COMMANDS = {
    "demo": ("demo", "Start real servers and show what callers see: of one, a gateway, a search, or capabilities."),
    "explain": ("explain", "Ask a running server what a caller sees, and say why."),
    "context": ("context", "Ask a running server what of it is in an agent's prompt, and what that costs."),
    "connect": ("connect", "Print what a client's configuration needs for a server or gateway, or write it there."),
    "new": ("new", "Make a new server package that passes its own tests."),
    "eval": ("evaluation.run", "Rank the tools that answer requests, and say how well."),
    "capabilities": ("capabilities", "Look after the bundles of servers that a gateway offers."),
    "gateway": ("gateway", "Serve every server of an mcp.json behind one bounded endpoint."),
    "graph": ("graph", "Look after the graph that queries are resolved on."),
    "usage": ("usage", "Show what was called, what was listed and never called, and searches that found nothing."),
}
"""Each command's module, which has it as `app`, and what it does: to list them, none is imported."""
_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
"""What a docstring says of an argument."""


def documented(command: Any) -> Any:
    """Return a command whose options say what its docstring says of its arguments; its own commands too.

    A switch that is off by default has no opposite.
    """
    command.help, _, arguments = (command.help or "").partition("\n\nArgs:\n")
    told = dict(_ARGUMENT.findall(arguments))
    for parameter in command.params:
        if parameter.name in told:
            parameter.help = " ".join([*told[parameter.name].split(), parameter.help or ""]).rstrip()
        if parameter.default is False:
            parameter.secondary_opts = []
    for each in getattr(command, "commands", {}).values():
        documented(each)
    return command


class _Commands(TyperGroup):
    """Imports a command that is run or asked for its help, and no other."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            module = import_module(f"agent_utilities.cli.{COMMANDS[args[0]][0]}")
            self.commands[args[0]] = documented(typer.main.get_command(module.app))
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_Commands, no_args_is_help=True)
for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"agent-utilities {version('agent-utilities')}")
        raise typer.Exit


@app.callback()
def describe(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Make an MCP server's tool surface small, right and bounded."""


@quiet_for_gone_reader()
def main() -> None:
    """Run the command and exit: 0 when done, 1 when the other end failed or has gone, 2 for bad input."""
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        _refuse(error.format_message(), 2)
    except InputError as error:
        _refuse(str(error), 2)
    except AgentUtilitiesError as error:
        _refuse(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(130)
    sys.exit(code if isinstance(code, int) else 0)


def _refuse(message: str, code: int) -> None:
    if message:
        print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(code)
