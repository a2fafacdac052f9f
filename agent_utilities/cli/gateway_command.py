"""`agent-utilities gateway`: its commands. What they do is imported when one runs, for `--help` needs none of it.

Annotations are values here, not texts, as in `Options`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agent_utilities.mcp.command_line.options import CAPABILITIES, BriefHelp, Options, option, options_type

GATEWAY_NAME = "gateway"
"""A gateway's name where none is given."""
_HELP = """Serve every server of an mcp.json behind one bounded endpoint.

`agent-utilities gateway [FILES]` serves; `agent-utilities gateway serve --help` tells how."""


@dataclass(frozen=True)
class _Program:
    """What the options tell of the gateway."""

    name: str = "agent-utilities gateway"

    @property
    def version(self) -> str | None:
        from importlib.metadata import version

        return version("agent-utilities")


class _ServesByDefault(TyperGroup):
    """A group that serves where no other command is named: `gateway mcp.json` is `gateway serve mcp.json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = _Program()
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


def _launch(result: Any, **_: Any) -> Any:
    """Launch the gateway where its options were parsed; anything else is an exit code."""
    if isinstance(result, GatewayOptions):
        from agent_utilities.cli.gateway import launch_gateway

        return launch_gateway(result)
    return result


gateway_app = typer.Typer(cls=_ServesByDefault, help=_HELP, result_callback=_launch)

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        help="mcp.json of any host, later over earlier. Without one: ./.mcp.json, ./mcp.json, .vscode/mcp.json, "
        ".cursor/mcp.json, then your own.",
        show_default=False,
    ),
]
Yes = Annotated[
    bool, option("--yes", "-y", help="Start what a file that was merely found in a folder names.", metavar="")
]


@dataclass(frozen=True, kw_only=True)
class GatewayOptions(Options):
    """Serve the servers of an mcp.json, bounded, on one endpoint."""

    files: Files = None
    yes: Yes = False
    name: Annotated[str, option("--name", help="The gateway's name, as clients see it (gateway).", metavar="NAME")] = (
        GATEWAY_NAME
    )
    capabilities: Annotated[
        list[str] | None,
        option(
            "--capabilities",
            metavar="DIR",
            help="A folder of capabilities that callers may switch on; may be repeated. `starter`: those that come "
            "with the package.",
            env="MCP_CAPABILITY_FOLDERS",
            panel=CAPABILITIES,
        ),
    ] = None
    capability: Annotated[
        list[str] | None,
        option(
            "--capability",
            metavar="NAME",
            help="One that is on for everybody from the start; may be repeated.",
            env="MCP_BOOT_CAPABILITIES",
            panel=CAPABILITIES,
        ),
    ] = None
    skills: Annotated[
        list[Path] | None,
        option(
            "--skills",
            metavar="DIR",
            help="A folder of skills to serve; one switches on the capabilities it names. May be repeated.",
            panel=CAPABILITIES,
        ),
    ] = None
    max_capabilities: Annotated[
        int | None,
        option(
            "--max-capabilities",
            min=0,
            max=64,
            metavar="N",
            help="The most others that one caller may have on (4).",
            env="MCP_MAX_CAPABILITIES",
            panel=CAPABILITIES,
            few=True,
        ),
    ] = None
    allow_install: Annotated[
        bool,
        option(
            "--allow-install",
            help="Install what a capability requires and is missing.",
            env="MCP_ALLOW_INSTALL",
            panel=CAPABILITIES,
            metavar="",
        ),
    ] = False


serve: Callable[..., Any] = gateway_app.command("serve", cls=BriefHelp)(options_type(GatewayOptions))


@gateway_app.command()
def check(
    files: Files = None,
    yes: Yes = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Reach every server once, and say what it costs and what is wrong; code 1 where one could not be reached."""
    import anyio

    from agent_utilities.cli.gateway import chosen_config
    from agent_utilities.cli.gateway_check import check as run

    config = chosen_config(files or (), yes=yes).config

    async def checking() -> int:
        return await run(config, as_json=as_json)

    return min(1, anyio.run(checking))


@gateway_app.command()
def login(
    name: Annotated[str, typer.Argument(help="The server's name in the config.")],
    files: Files = None,
    yes: Yes = False,
) -> None:
    """Log in at a server that wants it, in your browser, for this and every later start of a gateway."""
    from agent_utilities.cli.gateway import chosen_config
    from agent_utilities.cli.gateway_login import login_at

    login_at(name, chosen_config(files or (), yes=yes).config)


@gateway_app.command()
def logs(
    name: Annotated[
        str | None, typer.Argument(help="The server's name in the config; without one, all there are.")
    ] = None,
    n_lines: Annotated[int, typer.Option("-n", "--lines", min=1, help="How many lines, the last ones.")] = 100,
) -> None:
    """Print what a server last said on stderr, whichever gateway ran it."""
    from agent_utilities.cli.gateway import show_logs

    show_logs(name, n_lines)


@gateway_app.command()
def lock(
    files: Files = None,
    yes: Yes = False,
    accept: Annotated[
        list[str] | None, typer.Option(help="Accept what has changed under this name; may be repeated.")
    ] = None,
    accept_all: Annotated[bool, typer.Option("--all", help="Accept every change.")] = False,
) -> int:
    """Lock what servers tell models: from then on, what changes or is new is withheld until it is accepted."""
    from agent_utilities.cli.gateway import lock as run

    return run(files or (), yes=yes, accepted=accept or (), accept_all=accept_all)
