"""The `agent-utilities` command: each of its commands is a module, imported when the command runs."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agent_utilities.server.command_line import installed_version
from agent_utilities.server.command_line.options import documented, print_version
from agent_utilities.server.server_cli import run_and_exit

COMMANDS = {
    "explain": ("explain", "Ask a running server what a caller sees, and say why."),
    "context": ("context", "Ask a running server what of it is in an agent's prompt, and what that costs."),
    "page": ("page", "Open the page of a running server in your browser."),
    "approve": ("approve", "List the calls that wait for a person's yes at a running server, or answer one of them."),
    "connect": ("connect", "Print what a client's configuration needs for a server or gateway, or write it there."),
    "new": ("new", "Make a new server package that passes its own tests."),
    "eval": ("evaluation.run", "Rank the tools that answer requests, and say how well."),
    "capabilities": ("capabilities", "Look after the bundles of servers that a gateway offers."),
    "gateway": ("gateway", "Serve every server of an mcp.json behind one bounded endpoint."),
    "token": ("token", "Make, list and revoke tokens that let callers in."),
    "access": ("access", "Try rules of access: who may what, and why."),
    "embeddings": ("embeddings", "Look after the offline model that ranks by meaning."),
    "graph": ("graph", "Look after the graph that queries are resolved on."),
    "audit": ("audit", "Say whether a record of calls was tampered with."),
    "key": ("key", "Make the key that seals what a gateway keeps of its callers."),
    "usage": ("usage", "Show what was called, what results cost, what was never called, and searches without a match."),
}
"""Each command's module, which has it as `app`, and its help: listing them imports none."""


class _Commands(TyperGroup):
    """Imports the command that is run or whose help is shown, and no other."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in COMMANDS:
            module = import_module(f"agent_utilities.cli.{COMMANDS[args[0]][0]}")
            self.commands[args[0]] = documented(typer.main.get_command(module.app))
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=_Commands, no_args_is_help=True)
for _name, (_, _help) in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


@app.callback()
def describe(
    version: Annotated[bool, typer.Option("--version", callback=print_version, is_eager=True)] = False,
) -> None:
    """Make an MCP server's tool surface small, right and bounded.

    Args:
        version: Print the version and exit.
    """


def main() -> None:
    """Run the command and exit: 0 when done, 1 when the other end failed or has gone, 2 for bad input."""
    program = SimpleNamespace(name="agent-utilities", version=installed_version("agent-utilities"))
    run_and_exit(lambda: documented(typer.main.get_command(app))(standalone_mode=False, obj=program))
