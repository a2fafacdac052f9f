"""The options of every server's command line: typer makes the command from a dataclass, and that from the one table.

Annotations are values here, not texts: classes of options in other modules inherit them.
"""

import dataclasses
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol, TypeVar

import typer

from agent_utilities.mcp.command_line.version import NO_VERSION
from agent_utilities.selection.channels import Field, ValueKind, given_elsewhere, near_miss, spellings
from agent_utilities.selection.merge import SEARCHING
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import read_cli

_SELECTION = "What callers see"
_TOOL_SEARCH = "Tool search"
_METAVARS: dict[ValueKind, str] = {"count": "N", "number": "N", "text": "WORDS", "threshold": "MODE"}


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


_O = TypeVar("_O", bound="Options")


class Program(Protocol):
    """What the options need to know of the server that is launched: typer's context object."""

    @property
    def name(self) -> str:
        """The server's name."""
        ...

    @property
    def version(self) -> str | None:
        """The version that clients see."""
        ...


def _print_version(context: typer.Context, asked: bool) -> None:
    if asked:
        program: Program = context.obj
        has_version = program.version not in (None, NO_VERSION)
        print(f"{program.name} {program.version if has_version else '(no version)'}")
        raise typer.Exit


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that every server has beside its selection; typer makes the command from this signature."""

    transport: Annotated[Transport, typer.Option("-t", "--transport", help="How clients reach the server.")] = (
        Transport.STDIO
    )
    host: Annotated[str, typer.Option("--host", help="Address to bind, over HTTP.")] = "127.0.0.1"
    port: Annotated[int, typer.Option("-p", "--port", help="Port to bind, over HTTP.", min=0, max=65535)] = 8001
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-hosts",
            help="Hosts that requests may be for, over HTTP, beside loopback names on a loopback address. "
            "[dim]\\[env: MCP_ALLOWED_HOSTS][/dim]",
            metavar="HOSTS",
        ),
    ] = None
    allowed_origins: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-origins",
            help="Origins of web pages that may send requests, over HTTP. [dim]\\[env: MCP_ALLOWED_ORIGINS][/dim]",
            metavar="ORIGINS",
        ),
    ] = None
    list_tools: Annotated[bool, typer.Option("--list", help="Print what would be visible, with reasons, and exit.")] = (
        False
    )
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print JSON.")] = False
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="Least severe log line on stderr.")] = LogLevel.INFO
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False
    selection_policy: Annotated[
        SelectionPolicy | None,
        typer.Option(
            "--selection-policy",
            help="Whether a caller's allow-lists only narrow the operator's. [dim]\\[env: MCP_SELECTION_POLICY][/dim]",
            rich_help_panel=_SELECTION,
        ),
    ] = None


def options_type(base: type[_O]) -> type[_O]:
    """Return a class of options with one more field for every command-line spelling in the table of selection fields.

    Args:
        base: `Options`, or what has options of its own beside them.
    """
    fields = [
        (_attribute(spelling), _annotation(spelling, field), dataclasses.field(default=None))
        for spelling, field in spellings("cli")
    ]
    # Annotations of `Options` are looked up in the module that the new class names as its own.
    return dataclasses.make_dataclass(
        f"Selecting{base.__name__}",
        fields,
        bases=(base,),
        namespace={"__module__": base.__module__, "__doc__": base.__doc__},
        frozen=True,
        kw_only=True,
    )


def _attribute(spelling: str) -> str:
    return spelling.removeprefix("--").replace("-", "_")


def _annotation(spelling: str, field: Field) -> Any:
    """Return the type of an option and what `--help` says of it."""
    main = field.cli[0]
    panel = _TOOL_SEARCH if field.name in (*SEARCHING, "pins") else _SELECTION
    means_more = "toolsets" in spelling  # a name there may be a tag
    help = f"{field.help} [dim]\\[env: {field.env[0]}][/dim]" if spelling == main or means_more else f"Same as {main}."
    if field.kind == "flag":
        declaration = f"{spelling}/--no-{spelling.removeprefix('--')}"
        return Annotated[bool | None, typer.Option(declaration, help=help, rich_help_panel=panel)]
    option = typer.Option(spelling, help=help, metavar=_METAVARS.get(field.kind, "NAMES"), rich_help_panel=panel)
    return Annotated[list[str] | None, option]


def message_of(error: typer.TyperException) -> str:
    """Return what is wrong with the options; one that is none is told with the one that was probably meant."""
    option = getattr(error, "option_name", None)
    if hasattr(error, "possibilities") and option:
        if elsewhere := given_elsewhere(option, "cli"):
            return f"no such option: {option}; {elsewhere.hint}"
        if meant := near_miss(option, "cli"):
            return f"no such option: {option}; did you mean {meant}?"
    return error.format_message()


def selection_of(options: Options) -> Selection:
    """Return the selection in parsed options.

    Raises:
        SelectionError: a value can't be read.
    """
    values = ((spelling, getattr(options, _attribute(spelling))) for spelling, _ in spellings("cli"))
    return read_cli((spelling, text) for spelling, value in values for text in _texts(value))


def _texts(value: list[str] | bool | None) -> list[str]:
    if isinstance(value, bool):
        return [str(value).lower()]
    return value or []


def settings_of(options: Options) -> dict[str, str]:
    """Return the settings in parsed options, by name; what is not given is not in it.

    Raises:
        SettingsError: a value can't be read.
    """
    from agent_utilities.settings import check_hosts  # it loads pydantic, which --help and --version need not

    hosts, origins = (",".join(given or ()) for given in (options.allowed_hosts, options.allowed_origins))
    check_hosts(hosts, origins, "option --allowed-hosts", "option --allowed-origins")
    policy = options.selection_policy.value if options.selection_policy else ""
    given = {"selection_policy": policy, "allowed_hosts": hosts, "allowed_origins": origins}
    return {name: value for name, value in given.items() if value}
