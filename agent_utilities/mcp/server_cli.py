"""The command line that every server has: transports, selection flags, and `--list`."""

from __future__ import annotations

import inspect
import ipaddress
import logging
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import anyio
import typer

from agent_utilities.errors import InputError
from agent_utilities.mcp.lifespan import calm_collector
from agent_utilities.selection.channels import spellings
from agent_utilities.selection.parse import read_cli

if TYPE_CHECKING:
    from agent_utilities.mcp.server import AgentServer

logger = logging.getLogger("agent_utilities.cli")

_SELECTION = "What callers see"


class Transport(StrEnum):
    """How clients reach the server; `http` serves `/mcp` and the legacy `/sse` together."""

    STDIO = "stdio"
    HTTP = "http"
    STREAMABLE_HTTP = "streamable-http"
    SSE = "sse"

    @property
    def wire(self) -> Literal["http", "sse"]:
        """The transport's name in FastMCP, where `streamable-http` is `http`."""
        return "sse" if self is Transport.SSE else "http"


class SelectionPolicy(StrEnum):
    """How a caller's allow-lists meet the operator's."""

    NARROW = "narrow"
    OVERRIDE = "override"


class LogLevel(StrEnum):
    """The least severe log line to print on stderr."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def run(server: AgentServer, argv: Sequence[str] | None = None) -> NoReturn:
    """Run a server's command line and exit: 0 when done, 2 with one line on stderr for bad input.

    Args:
        server: the server to run.
        argv: arguments without the program's name; the process's by default.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.command(help=f"Serve {server.name} over MCP.", epilog=_EPILOG)(_command(server))
    try:
        app(list(sys.argv[1:] if argv is None else argv), standalone_mode=False)
    except typer.TyperException as error:
        _refuse(error.format_message())
    except InputError as error:
        _refuse(str(error))
    sys.exit(0)


_EPILOG = "Callers narrow this further by URL query (?tools=…) and headers (x-mcp-enabled-tools: …)."


def _refuse(message: str) -> NoReturn:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def _command(server: AgentServer) -> Callable[..., None]:
    """Return the command function; its signature is the fixed options and one option a spelling in the table."""
    flags = dict(_selection_options())

    def serve(**given: Any) -> None:
        chosen = [(option, value) for name, option in flags.items() for value in _values(given.pop(name))]
        policy = given.pop("selection_policy")
        server.surface.launch(read_cli(chosen), **({"selection_policy": policy.value} if policy else {}))
        if given.pop("list_tools"):
            from agent_utilities.mcp.command_line.listing import print_listing

            anyio.run(print_listing, server, given["as_json"])
        else:
            _serve(server, given["transport"], given["host"], given["port"], given["log_level"])

    serve.__signature__ = inspect.Signature(list(_parameters(server)))  # type: ignore[attr-defined]
    serve.__annotations__ = {each.name: each.annotation for each in _parameters(server)}
    return serve


def _selection_options() -> Iterator[tuple[str, str]]:
    for spelling, _ in spellings("cli"):
        yield spelling.removeprefix("--").replace("-", "_"), spelling


def _values(value: Any) -> list[str]:
    if value is None:
        return []
    return [
        str(each).lower() if isinstance(each, bool) else each
        for each in (value if isinstance(value, list) else [value])
    ]


def _parameters(server: AgentServer) -> Iterator[inspect.Parameter]:
    def option(name: str, kind: Any, default: Any, *flags: str, help: str, **more: Any) -> inspect.Parameter:
        annotation = Annotated[kind, typer.Option(*flags, help=help, **more)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    yield option("transport", Transport, Transport.STDIO, "-t", "--transport", help="How clients reach the server.")
    yield option("host", str, "127.0.0.1", "--host", help="Address to bind, over HTTP.")
    yield option("port", int, 8001, "-p", "--port", help="Port to bind, over HTTP.", min=0, max=65535)
    for spelling, field in spellings("cli"):
        name = spelling.removeprefix("--").replace("-", "_")
        help = f"{field.help} [dim]\\[env: {field.env[0]}][/dim]"
        if field.kind == "flag":
            flags = f"{spelling}/--no-{spelling.removeprefix('--')}"
            yield option(name, bool | None, None, flags, help=help, rich_help_panel=_SELECTION)
        else:
            metavar = {"count": "N", "text": "WORDS"}.get(field.kind, "NAMES")
            yield option(name, list[str] | None, None, spelling, help=help, metavar=metavar, rich_help_panel=_SELECTION)
    yield option(
        "selection_policy",
        SelectionPolicy | None,
        None,
        "--selection-policy",
        help="Whether a caller's allow-lists only narrow the operator's. [dim]\\[env: MCP_SELECTION_POLICY][/dim]",
        rich_help_panel=_SELECTION,
    )
    yield option("list_tools", bool, False, "--list", help="Print what would be visible, with reasons, and exit.")
    yield option("as_json", bool, False, "--json", help="With --list: print JSON.")
    yield option("log_level", LogLevel, LogLevel.INFO, "--log-level", help="Least severe log line on stderr.")

    def version(asked: bool) -> None:
        if asked:
            print(f"{server.name} {server.version}")
            raise typer.Exit

    yield option(
        "version",
        bool,
        False,
        "--version",
        help="Print the version and exit.",
        callback=version,
        is_eager=True,
    )


def _serve(server: AgentServer, transport: Transport, host: str, port: int, log_level: LogLevel) -> None:
    _log_to_stderr(log_level)
    # Uvicorn raises the signal again when it is done; the lifespan still has to close what it opened.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _ = server.surface.operator.selection, server.surface.operator.settings
    server.serves_http = transport is not Transport.STDIO
    server.resolver.check()
    calm_collector()
    try:
        if transport is Transport.STDIO:
            server.run(transport="stdio", show_banner=False, log_level=log_level.upper())
        else:
            if not _is_loopback(host) and server.auth is None:
                _warn_open(host, port)
            server.run(
                transport=transport.wire,
                host=host,
                port=port,
                show_banner=False,
                log_level=log_level.upper(),
            )
    except KeyboardInterrupt:
        sys.exit(130)


def _log_to_stderr(level: LogLevel) -> None:
    """Send this package's log lines to stderr, at a level; the root logger is left alone."""
    package = logging.getLogger("agent_utilities")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package.addHandler(handler)
    package.setLevel(level.upper())
    package.propagate = False


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _warn_open(host: str, port: int) -> None:
    program = Path(sys.argv[0]).name
    print(
        f"WARNING: {program} binds {host}:{port} without auth: anyone who can reach this address can call every "
        "permitted tool. Bind 127.0.0.1, pass auth= to create_mcp_server, or put an authenticating proxy before it.",
        file=sys.stderr,
    )
