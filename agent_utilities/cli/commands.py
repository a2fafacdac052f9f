"""The groups of `agent-utilities`: capabilities, gateway, graph and usage.

What a command does is imported when it runs, for `--help` needs none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agent_utilities.cli.gateway_options import Files, GatewayOptions, GatewayProgram, Yes
from agent_utilities.mcp.command_line.options import BriefHelp, options_type

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

capabilities_app = typer.Typer(no_args_is_help=True, help="Look after the bundles of servers that a gateway offers.")

CapabilityFolders = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="DIRS",
        help="Folders of capabilities, later over earlier; `starter` for those of the package. Your own where none "
        "is named.",
        show_default=False,
    ),
]
Providers = Annotated[
    list[str] | None,
    typer.Option("--provider", metavar="NAME=PROVIDER", help="Take another provider; may be repeated."),
]
Config = Annotated[
    Path | None, typer.Option(help="A gateway's config file, such as .mcp.json, whose servers bundles may refer to.")
]


def _folders(named: list[str] | None) -> list[Path]:
    from agent_utilities.capabilities.tap import folder_named

    return list(map(folder_named, named or ()))


@capabilities_app.command("check")
def check_bundles(
    folders: CapabilityFolders = None, provider: Providers = None, config: Config = None, as_json: AsJson = False
) -> None:
    """Say of each bundle what it brings and lacks, and what is wrong; 1 where one is left out."""
    from agent_utilities.cli.capabilities import check_capabilities

    if check_capabilities(_folders(folders), provider or [], config, as_json=as_json):
        raise typer.Exit(1)


@capabilities_app.command("list")
def list_bundles(
    folders: CapabilityFolders = None, provider: Providers = None, config: Config = None, as_json: AsJson = False
) -> None:
    """Show the bundles in a table."""
    from agent_utilities.cli.capabilities import list_capabilities

    list_capabilities(_folders(folders), provider or [], config, as_json=as_json)


@capabilities_app.command("new")
def new_bundle(
    name: Annotated[str, typer.Argument(help="The capability's name, such as websearch.")],
    folder: Annotated[Path | None, typer.Option(help="A folder of capabilities; your own where none is named.")] = None,
) -> None:
    """Write a bundle that works, with comments, for you to change."""
    from agent_utilities.cli.new import make_capability

    made = make_capability(name, folder)
    print(f"made {made}; next: change its files, then agent-utilities capabilities check {made.parent}")


@capabilities_app.command("route")
def route_messages(
    folder: Annotated[Path, typer.Option(help="A folder of capabilities; `starter` for the package's.")],
    rows: Annotated[
        Path, typer.Option(help="JSON lines of messages: intent, and label where known: a name, or null for none.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write a JSON line for each: intent, scores, activated.")],
    words: Annotated[bool, typer.Option("--words", help="Compare words alone, whatever MCP_RANKER says.")] = False,
) -> None:
    """Say which bundle each message calls for, as a gateway decides it, and how often that is right."""
    from agent_utilities.cli.evaluation.routes import route_messages as run

    run(_folders([str(folder)])[0], rows, out, by_words=words)


_HELP = """Serve every server of an mcp.json behind one bounded endpoint.

`agent-utilities gateway [FILES]` serves; `agent-utilities gateway serve --help` tells how."""


class _ServesByDefault(TyperGroup):
    """A group that serves where no other command is named: `gateway mcp.json` is `gateway serve mcp.json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.obj = GatewayProgram()
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

serve: Callable[..., Any] = gateway_app.command("serve", cls=BriefHelp)(options_type(GatewayOptions))


@gateway_app.command("check")
def check_servers(
    files: Files = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """Reach every server once, and say what it costs and what is wrong; code 1 where one could not be reached."""
    import anyio

    from agent_utilities.cli.gateway import chosen_config
    from agent_utilities.cli.gateway_servers import check as run

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
    from agent_utilities.cli.gateway_servers import login_at

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


graph_app = typer.Typer(no_args_is_help=True, help="Look after the graph that queries are resolved on.")

_Server = Annotated[str, typer.Argument(help="The server's name, as `graph status` shows it.")]


@graph_app.command("status")
def status() -> None:
    """Show every server in the graph: how many tools, and how old."""
    import anyio

    from agent_utilities.cli.graph import show_status

    anyio.run(show_status)


@graph_app.command()
def sync(
    url: Annotated[str, typer.Argument(help="A live MCP server's URL, such as http://127.0.0.1:8001/mcp.")],
    name: Annotated[str | None, typer.Option(help="The name to keep it under; its own by default.")] = None,
) -> None:
    """Bring a live server's tools into the graph: those it shows to a caller without a selection."""
    import anyio

    from agent_utilities.cli.graph import sync_server

    anyio.run(sync_server, url, name)


@graph_app.command()
def query(words: Annotated[str, typer.Argument(help="The user's words.")], server: _Server) -> None:
    """Show which of a server's tools a query resolves to, best first."""
    import anyio

    from agent_utilities.cli.graph import show_matches

    anyio.run(show_matches, words, server)


@graph_app.command("forget")
def forget_in_graph(server: _Server) -> None:
    """Remove a server and its tools from the graph, such as one that was renamed."""
    import anyio

    from agent_utilities.cli.graph import forget_server

    anyio.run(forget_server, server)


usage_app = typer.Typer(invoke_without_command=True)

_Log = Annotated[
    Path | None,
    typer.Option(
        help="The log, an SQLite file; MCP_USAGE_FILE, or all in your state folder, where none is named.",
        show_default=False,
    ),
]


@usage_app.callback()
def usage(
    context: typer.Context,
    file: _Log = None,
    server: Annotated[str | None, typer.Option(help="Show this server or gateway alone.")] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="How many days back, with today.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Show what was called, what was listed and never called, and searches that found nothing."""
    if context.invoked_subcommand is None:
        from agent_utilities.cli.usage import show_usage

        show_usage(file, server=server, days=days, as_json=as_json)


@usage_app.command("forget")
def forget_usage(
    file: _Log = None,
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
    from agent_utilities.cli.usage import forget_usage as run
    from agent_utilities.cli.usage import meant_by

    run(file, meant_by(server, tool, before, older_than, words=words, everything=everything), everything, yes=yes)
