"""The options of `agent-utilities gateway`, beside those of every server.

Annotations are values here, not texts, as in `Options`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from agent_utilities.mcp.command_line.options import CAPABILITIES, Options, option

GATEWAY_NAME = "gateway"
"""A gateway's name where none is given."""

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
