"""The commands of `agent-utilities gateway`. Their implementation is imported when one runs: `--help` needs none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agent_utilities.cli.gateway_options import Files, GatewayOptions, Yes
from agent_utilities.server.command_line import installed_version
from agent_utilities.server.command_line.options import BriefHelp, options_type
from agent_utilities.server.command_line.terminal import AsJson


class _ServesByDefault(TyperGroup):
    """A group that serves where no other command is named: `gateway mcp.json` is `gateway serve mcp.json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = SimpleNamespace(name="agent-utilities gateway", version=installed_version("agent-utilities"))
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


def _launch(result: Any, **_: Any) -> Any:
    if isinstance(result, GatewayOptions):
        from agent_utilities.cli.gateway_commands import launch_gateway

        return launch_gateway(result)
    return result


_HELP = """Serve every server of an mcp.json behind one bounded endpoint.

`agent-utilities gateway [FILES]` serves; `agent-utilities gateway serve --help` tells how."""

app = typer.Typer(add_completion=False, cls=_ServesByDefault, help=_HELP, result_callback=_launch)

serve: Callable[..., Any] = app.command("serve", cls=BriefHelp)(options_type(GatewayOptions))


@app.command()
def check(files: Files = None, yes: Yes = False, as_json: AsJson = False) -> int:
    """Reach every server once, and say what it costs and what is wrong; code 1 where one could not be reached."""
    from agent_utilities.cli.gateway_commands import check_servers, chosen_config

    return check_servers(chosen_config(files or (), yes=yes), as_json=as_json)


@app.command()
def login(name: str, files: Files = None, yes: Yes = False) -> None:
    """Log in at a server that wants it, in your browser, for this and every later start of a gateway.

    Args:
        name: The server's name in the config.
    """
    from agent_utilities.cli.gateway_commands import chosen_config, login_at

    login_at(name, chosen_config(files or (), yes=yes).config)


@app.command()
def logs(
    name: Annotated[str | None, typer.Argument()] = None,
    n_lines: Annotated[int, typer.Option("-n", "--lines", min=1)] = 100,
) -> None:
    """Print what a server last said on stderr, whichever gateway ran it.

    Args:
        name: The server's name in the config; without one, all there are.
        n_lines: How many lines, the last ones.
    """
    from agent_utilities.cli.gateway_commands import print_logs

    print_logs(name, n_lines)


@app.command()
def lock(
    files: Files = None,
    yes: Yes = False,
    accept: list[str] | None = None,
    accept_all: Annotated[bool, typer.Option("--all")] = False,
) -> int:
    """Lock what servers tell models: from then on, what changes or is new is withheld until it is accepted.

    Args:
        accept: Accept what has changed under this name; may be repeated.
        accept_all: Accept every change.
    """
    from agent_utilities.cli.gateway_commands import chosen_config, lock_servers

    return lock_servers(chosen_config(files or (), yes=yes), accepted=accept or (), accept_all=accept_all)
