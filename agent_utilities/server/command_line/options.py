"""The options of every server's command line: typer makes the command from a dataclass, and that from the one table.

Annotations are values here, not texts: classes of options in other modules inherit them.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from typing import Annotated, Any, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperOption

from agent_utilities.selection.channels import Field, ValueKind, given_elsewhere, near_miss, spellings
from agent_utilities.selection.merge import SEARCHING
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import read_cli
from agent_utilities.server.command_line import NO_VERSION

_BOUNDS = "What callers may use"
_LISTED = "What is listed for them"
CAPABILITIES = "Capabilities"
_NETWORK = "Over a network"
_FEATURES = "Features"
_PANELS = (None, _BOUNDS, _LISTED, CAPABILITIES, _NETWORK, _FEATURES)
_MORE_THAN_ONE = {"--tools": "Permit only these tools.", "--toolsets": "Permit only these: names of tools, or tags."}
"""The help of spellings of a field that are no other names for the same."""
_FEW_SET = ("initial_k", "search_k", "search_turns", "max_active")
_VARIABLE = re.compile(r" \[dim\]\\\[env: \w+\]\[/dim\]$")
_METAVARS: dict[ValueKind, str] = {
    **dict.fromkeys(("count", "number", "budget"), "N"),
    **{"text": "WORDS", "threshold": "MODE", "profile": "NAME"},
}


Transport = Literal["stdio", "http", "streamable-http", "sse"]
"""How clients reach the server; `http` serves `/mcp` and the legacy `/sse` together."""
LogLevel = Literal["debug", "info", "warning", "error"]
"""The least severe log line to print on stderr."""

_O = TypeVar("_O", bound="Options")


def print_version(context: typer.Context, value: bool) -> None:
    """Print the name and version of the program, which is the context's object, and exit."""
    if value:
        program = context.obj
        has_version = program.version not in (None, NO_VERSION)
        print(f"{program.name} {program.version if has_version else '(no version)'}")
        raise typer.Exit


def _print_help_all(context: typer.Context, value: bool) -> None:
    if value and isinstance(context.command, BriefHelp):
        context.command.format_help(context, context.make_formatter(), is_brief=False)
        raise typer.Exit


class BriefHelp(TyperCommand):
    """A command whose `--help` is one screen: what few set, and where else it may be set, is left to `--help-all`."""

    def format_help(self, ctx: Any, formatter: Any, *, is_brief: bool = True) -> None:
        """Print the options by who needs them: in brief those that are not hidden, without their variables."""
        for parameter in self.params:
            if isinstance(parameter, TyperOption) and is_brief:
                parameter.help = _VARIABLE.sub("", parameter.help or "")
                parameter.hidden |= parameter.name in ("install_completion", "show_completion")
            elif isinstance(parameter, TyperOption):
                parameter.hidden = False
        self.params.sort(key=lambda parameter: _PANELS.index(getattr(parameter, "rich_help_panel", None)))
        super().format_help(ctx, formatter)


def option(*names: str, help: str = "", env: str = "", panel: str | None = None, few: bool = False, **more: Any) -> Any:
    """Return what typer makes an option of; one that `few` set is shown by `--help-all` alone."""
    text = f"{help} [dim]\\[env: {env}][/dim]" if env else help
    return typer.Option(*names, help=text, rich_help_panel=panel, hidden=few, show_default=False, **more)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that every server has beside its selection; typer makes the command from this signature.

    Args:
        transport: How clients reach it: stdio (default), http or sse.
        host: Address to bind, over HTTP (127.0.0.1).
        port: Port to bind, over HTTP (8001); 0 for a free one.
        drain: Over HTTP, seconds from SIGTERM on in which requests are answered while /ready fails (0).
        list_tools: Print what would be visible, with reasons, and exit.
        as_json: With --list: print JSON.
        log_level: Log lines on stderr from debug, info (default), warning or error.
        version: Print the version and exit.
        help_all: Show all options, with their other names and variables.
        allowed_hosts: Hosts that requests may be for, beside loopback names on a loopback address.
        allowed_origins: Origins of web pages that may send requests.
        selection_policy: Whether a caller's allow-lists only narrow the operator's (default), or override them.
        auth_tokens: File of tokens that let callers in; see agent-utilities token.
        auth_issuer: OpenID Connect issuer at which callers log in.
        auth_audience: Whom the issuer's tokens must be for.
        auth_base_url: The server's URL without /mcp, as callers reach it.
        auth_client_id: The server's own client at the issuer; its secret is MCP_AUTH_CLIENT_SECRET alone.
        no_match: What a query lists that nothing answers: all (default), or search (over 50 tools).
        programs: Whether models may run programs over tools that only read, or over all; off by default.
    """

    transport: Annotated[Transport | None, option("-t", "--transport", metavar="KIND", env="FASTMCP_TRANSPORT")] = None
    host: Annotated[str | None, option(metavar="ADDRESS", env="FASTMCP_HOST")] = None
    port: Annotated[int | None, option("--port", "-p", metavar="N", min=0, max=65535, env="FASTMCP_PORT")] = None
    drain: Annotated[float, option(metavar="SECONDS", min=0, panel=_NETWORK, few=True)] = 0.0
    list_tools: Annotated[bool, option("--list")] = False
    as_json: Annotated[bool, option("--json")] = False
    log_level: Annotated[LogLevel | None, option(metavar="LEVEL", env="FASTMCP_LOG_LEVEL")] = None
    version: Annotated[bool, option("--version", callback=print_version, is_eager=True)] = False
    help_all: Annotated[bool, option("--help-all", callback=_print_help_all, is_eager=True)] = False


def _setting(name: str, kind: Any, metavar: str, **more: Any) -> tuple[str, Any, Any]:
    made = option(env=f"MCP_{name.upper()}", metavar=metavar, **more)
    return name, Annotated[kind | None, made], dataclasses.field(default=None)


_SETTINGS = (
    _setting("allowed_hosts", list[str], "HOSTS", panel=_NETWORK),
    _setting("allowed_origins", list[str], "ORIGINS", panel=_NETWORK),
    _setting("auth_tokens", str, "FILE", panel=_NETWORK),
    _setting("auth_issuer", str, "URL", panel=_NETWORK, few=True),
    _setting("auth_audience", str, "TEXT", panel=_NETWORK, few=True),
    _setting("auth_base_url", str, "URL", panel=_NETWORK, few=True),
    _setting("auth_client_id", str, "ID", panel=_NETWORK, few=True),
    _setting("selection_policy", Literal["narrow", "override"], "POLICY", panel=_NETWORK, few=True),
    _setting("no_match", Literal["all", "search"], "MODE", panel=_LISTED, few=True),
    _setting("programs", Literal["off", "read", "all"], "MODE", panel=_BOUNDS, few=True),
)


def _declared(model: Any) -> list[tuple[str, Any, Any]]:
    """Return the options of the settings that a feature declares."""
    return [
        (
            name,
            Annotated[
                str | None,
                option(
                    help=_plain(field.description or ""), env=f"MCP_{name.upper()}", metavar="VALUE", panel=_FEATURES
                ),
            ],
            dataclasses.field(default=None, metadata={_FEATURES: True}),
        )
        for name, field in model.model_fields.items()
    ]


def options_type(base: type[_O], declared: Iterable[Any] = ()) -> type[_O]:
    """Return a class of options with one more field for each setting, and each spelling in the table of selections.

    Args:
        declared: the models of the settings that features declare.
    """
    selecting = [
        (_attribute(spelling), _annotation(spelling, field), dataclasses.field(default=None))
        for spelling, field in spellings("cli")
    ]
    documents = "\n".join(inspect.getdoc(each) or "" for each in dict.fromkeys((base, Options)))
    # Annotations of `Options` are looked up in the module that the new class names as its own.
    return dataclasses.make_dataclass(
        f"Selecting{base.__name__}",
        [*_SETTINGS, *selecting, *(row for model in declared for row in _declared(model))],
        bases=(base,),
        namespace={"__module__": base.__module__, "__doc__": documents},
        frozen=True,
        kw_only=True,
    )


def _plain(text: str) -> str:
    """Return a text of which rich reads nothing as markup."""
    return text.replace("[", "\\[")


def _attribute(spelling: str) -> str:
    return spelling.removeprefix("--").replace("-", "_")


def _annotation(spelling: str, field: Field) -> Any:
    main = field.spellings("cli")[0]
    panel = _LISTED if field.name in (*SEARCHING, "pins", "query", "top_k") else _BOUNDS
    few = field.name in _FEW_SET or spelling not in (main, "--toolsets")
    help, env = _plain(field.help), field.spellings("env")[0]
    if spelling in _MORE_THAN_ONE:
        help = _MORE_THAN_ONE[spelling]
    elif spelling != main:
        help, env = f"Same as {main}.", ""
    if field.kind == "flag":
        said = spelling.removeprefix("--")
        declaration = f"{spelling}/--{said.removeprefix('no-') if said.startswith('no-') else f'no-{said}'}"
        return Annotated[bool | None, option(declaration, help=help, env=env, panel=panel, few=few)]
    metavar = _METAVARS.get(field.kind, "NAMES")
    return Annotated[list[str] | None, option(spelling, help=help, env=env, panel=panel, few=few, metavar=metavar)]


_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
"""What a docstring says of an argument."""


def documented(command: Any) -> Any:
    """Return a command whose options say what its docstring says of its arguments; its own commands too.

    A switch takes no value, and one that is off by default has no opposite.
    """
    command.help = (command.help or "").partition("\n\nArgs:\n")[0]
    helps = dict(_ARGUMENT.findall(inspect.getdoc(command.callback) or ""))
    for parameter in command.params:
        if parameter.name in helps:
            parameter.help = " ".join([*helps[parameter.name].split(), parameter.help or ""]).rstrip()
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        if parameter.default is False:
            parameter.secondary_opts = []
    if not hasattr(command, "commands"):
        command.parse_args = partial(_whole, command, command.parse_args)
    for each in getattr(command, "commands", {}).values():
        documented(each)
    return command


def _whole(command: Any, parse: Any, context: Any, args: list[str]) -> Any:
    """Parse arguments, none of which is an option's value though it names an option: `--query --list` is refused."""
    takes = {name: each for each in command.params for name in (*each.opts, *each.secondary_opts) if name[:1] == "-"}
    for name, value in pairwise(takewhile(lambda each: each != "--", args)):
        if name in takes and value in takes and not takes[name].is_flag:
            raise typer.BadParameter(
                f"has no value before {value}; write {name}={value} if that is meant", context, takes[name]
            )
    return parse(context, args)


def may_be_declared(error: Any) -> bool:
    """Whether what is wrong is an unknown option that is none of ours, nor near one: a feature may declare it."""
    option: Any = getattr(error, "option_name", None)
    is_unknown = hasattr(error, "possibilities") and option
    return bool(is_unknown and not given_elsewhere(option, "cli") and not near_miss(option, "cli"))


def message_of(error: Any) -> str:
    """Return the message of a command-line error; a server's names the option that was probably meant."""
    option = getattr(error, "option_name", None)
    if hasattr(error, "possibilities") and option and isinstance(error.ctx.command, BriefHelp):
        if elsewhere := given_elsewhere(option, "cli"):
            return f"no such option: {option}; {elsewhere[1]}"
        if meant := near_miss(option, "cli"):
            return f"no such option: {option}; did you mean {meant}?"
    return str(error.format_message())


def selection_of(options: Options) -> Selection:
    """Return the selection in parsed options."""
    texts: list[tuple[str, str]] = []
    for spelling, _ in spellings("cli"):
        value = getattr(options, _attribute(spelling))
        texts += [(spelling, text) for text in ([str(value).lower()] if isinstance(value, bool) else value or [])]
    return read_cli(texts)


def settings_of(options: Options) -> dict[str, str]:
    """Return the settings in parsed options, by name, without those that are not set.

    Raises:
        SettingsError: a value can't be read.
    """
    from agent_utilities.settings import check_hosts  # it loads pydantic, which --help and --version need not

    values = {name: getattr(options, name) for name, *_ in _SETTINGS}
    texts = {name: value if isinstance(value, str) else ",".join(value or ()) for name, value in values.items()}
    hosts, origins = texts["allowed_hosts"], texts["allowed_origins"]
    check_hosts(hosts, origins, "option --allowed-hosts", "option --allowed-origins")
    texts |= {
        each.name: getattr(options, each.name) for each in dataclasses.fields(options) if _FEATURES in each.metadata
    }
    return {name: text for name, text in texts.items() if text}
