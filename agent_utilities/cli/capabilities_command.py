"""`agent-utilities capabilities`: its commands. What they do is imported when one runs, for `--help` needs none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

capabilities_app = typer.Typer(no_args_is_help=True, help="Look after the bundles of servers that a gateway offers.")

Folders = Annotated[
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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _folders(named: list[str] | None) -> list[Path]:
    from agent_utilities.capabilities.starter_tap import folder_named

    return list(map(folder_named, named or ()))


@capabilities_app.command()
def check(folders: Folders = None, provider: Providers = None, config: Config = None, as_json: AsJson = False) -> None:
    """Say of each bundle what it brings and lacks, and what is wrong; 1 where one is left out."""
    from agent_utilities.cli.capabilities import check_capabilities

    if check_capabilities(_folders(folders), provider or [], config, as_json=as_json):
        raise typer.Exit(1)


@capabilities_app.command("list")
def list_(folders: Folders = None, provider: Providers = None, config: Config = None, as_json: AsJson = False) -> None:
    """Show the bundles in a table."""
    from agent_utilities.cli.capabilities import list_capabilities

    list_capabilities(_folders(folders), provider or [], config, as_json=as_json)


@capabilities_app.command()
def new(
    name: Annotated[str, typer.Argument(help="The capability's name, such as websearch.")],
    folder: Annotated[Path | None, typer.Option(help="A folder of capabilities; your own where none is named.")] = None,
) -> None:
    """Write a bundle that works, with comments, for you to change."""
    from agent_utilities.cli.capabilities_new import make_capability

    made = make_capability(name, folder)
    print(f"made {made}; next: change its files, then agent-utilities capabilities check {made.parent}")


@capabilities_app.command()
def route(
    folder: Annotated[Path, typer.Option(help="A folder of capabilities; `starter` for the package's.")],
    rows: Annotated[
        Path, typer.Option(help="JSON lines of messages: intent, and label where known: a name, or null for none.")
    ],
    out: Annotated[Path, typer.Option(help="Where to write a JSON line for each: intent, scores, activated.")],
    words: Annotated[bool, typer.Option("--words", help="Compare words alone, whatever MCP_RANKER says.")] = False,
) -> None:
    """Say which bundle each message calls for, as a gateway decides it, and how often that is right."""
    from agent_utilities.cli.capabilities_route import route_messages

    route_messages(_folders([str(folder)])[0], rows, out, by_words=words)
