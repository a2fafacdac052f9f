"""The command line that every server has: parse its options, then list the surface or serve it."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from agent_utilities.errors import AgentUtilitiesError, InputError, SettingsError
from agent_utilities.runtime.waiting import run_async
from agent_utilities.server.command_line import installed_version
from agent_utilities.server.command_line import options as command_line
from agent_utilities.server.command_line.options import BriefHelp, Options

if TYPE_CHECKING:  # the command line is read before anything of FastMCP is loaded
    from agent_utilities.server.agent_server import AgentServer


DEFAULT_PORT, MAX_PORT = 8001, 65535
_EPILOG = "Callers narrow this further by URL query (?tools=…) and headers (x-mcp-enabled-tools: …)."


def server_command(name: str, place: str) -> Callable[..., NoReturn]:
    """Return the command of a server that is not imported yet; the entry point of its package.

    It does what `server.cli` does, and answers `--help`, `--version`, a typo and the shell's completion in a sixth of
    the time, since neither FastMCP nor the tools are loaded for them.

    Args:
        name: the server's name, and that of its package.
        place: where the server is: `weather_agent.server:mcp`.
    """

    def command(argv: Sequence[str] | None = None) -> NoReturn:
        _run(SimpleNamespace(name=name, version=installed_version(name)), lambda: resolve_name(place), argv)

    return command


def run(server: AgentServer, argv: Sequence[str] | None = None) -> NoReturn:
    """Run a server's command line and exit: 0 when done, 2 with one line on stderr for bad input, 130 when interrupted.

    Args:
        argv: arguments without the program's name; the process's by default.
    """
    _run(server, lambda: server, argv)


def _run(program: Any, load: Callable[[], AgentServer], argv: Sequence[str] | None) -> NoReturn:
    """Run the command line of a program with a name and a version, and load the server once its options are valid."""

    def parsed(declared: Sequence[Any] = ()) -> object:
        app = typer.Typer()
        app.command(cls=BriefHelp, help=f"Serve {program.name} over MCP.", epilog=_EPILOG)(
            command_line.options_type(Options, declared)
        )
        command = command_line.documented(typer.main.get_command(app))
        return command(list(sys.argv[1:] if argv is None else argv), standalone_mode=False, obj=program)

    def parse_and_launch() -> None:
        server: AgentServer | None = None if isinstance(program, SimpleNamespace) else program
        try:
            options = parsed(_declared_by(server))
        except typer.TyperException as error:
            # It may be an option of a feature, which only the server itself knows; a misspelt one of ours is not.
            if server is not None or not command_line.may_be_declared(error):
                raise
            if not (declared := _declared_by(server := load())):
                raise
            options = parsed(declared)
        if isinstance(options, Options):  # it is an exit code where --help or --version has been answered
            launch(load if server is None else lambda: server, options)

    run_and_exit(parse_and_launch)


def _declared_by(server: AgentServer | None) -> Sequence[Any]:
    """Return the settings models that a server's features declare, with those of features that its operator names."""
    if server is None:
        return ()
    server.features.declare(server.operator)
    return server.operator.models


def run_and_exit(command: Callable[[], object]) -> NoReturn:
    """Run a command and exit, with one line on stderr for an error.

    The exit code is the command's return value, 0 where it returns none; 2 for bad input, 1 where the other end failed,
    130 when interrupted; 1 without a message where the reader of the output has gone.
    """
    _keep_stderr()
    try:
        try:
            code = _code_of(command)
        finally:
            if sys.stdout is not None:  # which may be closed from the start
                sys.stdout.flush()
    except* BrokenPipeError:  # alone, or as a stdio server's tasks raise it
        # The interpreter flushes once more as it ends; what is left then goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        code = 1
    sys.exit(code)


def _keep_stderr() -> None:
    """Open stderr on the null device where the process was started with it closed.

    Otherwise its lines go to stdout, among a stdio server's messages, or into the next file that is opened.
    """
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")


def _code_of(command: Callable[[], object]) -> int:
    try:
        done = command()
        return done if isinstance(done, int) else 0
    except typer.TyperException as error:
        message, code = command_line.message_of(error), 2
    except AgentUtilitiesError as error:
        message, code = str(error), 2 if isinstance(error, InputError) else 1
    except ValueError as error:
        from agent_utilities.settings import of_fastmcp

        if (wrong := of_fastmcp(error)) is None:
            raise
        message, code = str(wrong), 2
    except (KeyboardInterrupt, typer.Abort):
        return 130
    if message:
        from agent_utilities.runtime.shown import shown

        print(f"error: {shown(' '.join(message.split()), None)}", file=sys.stderr)  # a server may have written of it
    return code


def launch(load: Callable[[], AgentServer], options: Options) -> None:
    """Serve by the options of a command line, or print what would be visible.

    Args:
        load: returns the server; called once the options are valid.

    Raises:
        InputError: a value can't be read.
    """
    selection, settings = command_line.selection_of(options), command_line.settings_of(options)
    server = load()
    server.greeting.is_ours = True
    try:
        server.check_libraries()
        server.surface.launch(selection, **settings)
        for model in server.operator.models:
            server.operator.declared(model)
        if not options.list_tools:
            _serve(server, options)
            return
        from agent_utilities.server.command_line.listing import print_listing

        run_async(print_listing, server, options.as_json)
    finally:
        server.greeting.end()


def serve_alone(
    server: AgentServer,
    transport: Any = None,
    show_banner: bool | None = None,
    *,
    log_level: str | None = None,
    **options: Any,
) -> None:
    """Serve a server that its author runs by `FastMCP.run`, with our startup message and without a banner.

    Logging stays as it is where the author has configured it.
    """
    _keep_stderr()
    if not logging.getLogger().handlers and not logging.getLogger("agent_utilities").handlers:
        log_to_stderr(log_level)
        server.greeting.logs_alike = True
    elif log_level is not None:
        options["log_level"] = log_level
    try:
        run_async(partial(server.run_async, transport, bool(show_banner), **options))
    finally:
        server.greeting.end()


def _serve(server: AgentServer, options: Options) -> None:
    import fastmcp  # which the server has imported

    from agent_utilities.runtime.process_io import EndableStdin
    from agent_utilities.server.stopping import calm_collector

    theirs = fastmcp.settings  # of the variables that `FastMCP.run` reads too
    log_level = (options.log_level or theirs.log_level).upper()
    log_to_stderr(log_level)
    server.greeting.logs_alike = True
    # Uvicorn raises the signal again when it is done; the lifespan still has to close what it opened.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    _ = server.surface.operator.selection, server.surface.operator.settings
    transport = options.transport or theirs.transport
    server.transport = "http" if transport == "streamable-http" else transport
    server.complete()
    for feature in server.features:
        feature.check()
    calm_collector()
    run: dict[str, Any] = {"transport": server.transport, "show_banner": False}
    if transport != "stdio":
        port = theirs.port if "port" in theirs.model_fields_set else DEFAULT_PORT
        if not 0 <= port <= MAX_PORT:
            raise SettingsError("no port", str(port), "env FASTMCP_PORT", f"give one of 0 to {MAX_PORT}")
        run |= {"host": options.host or theirs.host, "port": port if options.port is None else options.port}
        run["uvicorn_config"] = {"log_level": log_level.lower()}
        server.stopping.drain_s = options.drain
    elif sys.platform != "win32":  # which can't wait for pipes
        server.stopping.end_input = EndableStdin().end

    async def serve() -> None:
        try:
            await server.run_async(**run)
        finally:
            server.stopping.leave()

    run_async(serve)
    if server.stopping.signal == signal.SIGINT:
        raise KeyboardInterrupt


_STARTING = ("Started server process", "Waiting for application startup", "Application startup complete")
"""Lines of the web server from before it is bound; `Greeting` replaces them."""
_SAID = ("Starting MCP server", "Uvicorn running on", *_STARTING)


def log_to_stderr(level: str | None) -> None:
    """Send log lines to stderr in one format, at a level, and truncated; the root logger is left alone.

    Args:
        level: the least severe level; FastMCP's setting where None.
    """
    import fastmcp

    from agent_utilities.runtime.process_io import ShortRecord

    logging.setLogRecordFactory(ShortRecord)
    logs, requests = logging.StreamHandler(sys.stderr), logging.StreamHandler(sys.stdout)  # as the web server has it
    logs.addFilter(lambda record: record.levelno > logging.INFO or not str(record.msg).startswith(_SAID))
    for name in ("agent_utilities", "fastmcp", "uvicorn", "uvicorn.access"):
        package, handler = logging.getLogger(name), requests if name == "uvicorn.access" else logs
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        package.handlers = [handler]
        package.setLevel((level or fastmcp.settings.log_level).upper())
        package.propagate = False
