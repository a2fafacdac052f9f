"""The options of `agent-utilities gateway`, beside those of every server.

Annotations are values here, not texts, as in `Options`.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from agent_utilities.server.command_line.options import CAPABILITIES, Options, option

GATEWAY_NAME = "gateway"
"""A gateway's name by default."""

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILES",
        help="mcp.json of any host, later over earlier. Without one: ./.mcp.json, ./mcp.json, .vscode/mcp.json, "
        ".cursor/mcp.json, then your own.",
        show_default=False,
    ),
]
"""The files that a command of the gateway reads.

Naming a file is consent to its content; a file in the working folder needs the user's consent, once or by `--yes`.
"""
Yes = Annotated[bool, option("--yes", "-y", help="Start what a file that was merely found in a folder names.")]
"""The user's consent to the config in the working folder, instead of an answer on a terminal."""


_of_capabilities = partial(option, panel=CAPABILITIES)


@dataclass(frozen=True, kw_only=True)
class GatewayOptions(Options):
    """Serve the servers of an mcp.json, bounded, on one endpoint.

    Args:
        name: The gateway's name, as clients see it (gateway).
        capabilities: A folder of capabilities that callers may switch on; may be repeated. `starter`: those that come
            with the package.
        capability: One that is on for everybody from the start; may be repeated.
        skills: A folder of skills to serve; one switches on the capabilities it names. May be repeated.
        max_capabilities: The most others that one caller may have on (4).
        allow_install: Install what a capability requires and is missing.
    """

    files: Files = None
    yes: Yes = False
    name: Annotated[str, option(metavar="NAME")] = GATEWAY_NAME
    capabilities: Annotated[list[str] | None, _of_capabilities(metavar="DIR", env="MCP_CAPABILITY_FOLDERS")] = None
    capability: Annotated[list[str] | None, _of_capabilities(metavar="NAME", env="MCP_BOOT_CAPABILITIES")] = None
    skills: Annotated[list[Path] | None, _of_capabilities(metavar="DIR")] = None
    max_capabilities: Annotated[
        int | None, _of_capabilities(min=0, max=64, metavar="N", env="MCP_MAX_CAPABILITIES", few=True)
    ] = None
    allow_install: Annotated[bool, _of_capabilities(env="MCP_ALLOW_INSTALL")] = False
