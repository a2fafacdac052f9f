"""A connection to a process over its stdin and stdout: bounded, passing over garbage, ended with all it started."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Unpack

import anyio
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession

from agent_utilities.runtime.threads import in_daemon_thread
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.errors import Cause, UpstreamError
from agent_utilities.upstream.limits import MIB, IncomingMessage, Limits, Unfinished
from agent_utilities.upstream.processes.child_environment import child_environment
from agent_utilities.upstream.processes.command_path import CommandError, child_path, find_program, with_home
from agent_utilities.upstream.processes.marked_processes import Entry
from agent_utilities.upstream.processes.message_streams import CLOSED_S, MessageReader, MessageWriter
from agent_utilities.upstream.processes.process import UpstreamProcess
from agent_utilities.upstream.processes.process_guard import ProcessGuard
from agent_utilities.upstream.processes.stderr_log import StderrLog, readable
from agent_utilities.upstream.processes.stderr_pump import StderrPump
from agent_utilities.upstream.secrets import secrets_of, without

logger = logging.getLogger("agent_utilities.upstream")

_TOLD_GARBAGE_LINES = 20
_TOLD_CHARACTERS = 200


class StdioUpstream(ClientTransport):
    """One process, started by `connect_session` and ended, with all that it started, when that is left.

    Args:
        config: what is started, and how.
        environ: our own environment, of which the variables in `child_environment.PASSED_ON` are passed on.
        stderr: takes what it writes to stderr, and the first lines on stdout that are no messages.
        guard: ends it where we can't.
        limits: what it may send; the config's where None. A longer answer becomes an error that says so.
        unfinished: counts what has begun to come on all of the upstream's connections.
    """

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        environ: Mapping[str, str],
        stderr: StderrLog,
        guard: ProcessGuard,
        limits: Limits | None = None,
        unfinished: Unfinished | None = None,
    ) -> None:
        self.config, self.stderr, self.guard = config, stderr, guard
        self.limits, self.unfinished = limits or config.limits, unfinished or Unfinished()
        self.died = asyncio.Event()
        """Set once the process has exited or closed a pipe, when calls have no answer to wait for; `exit_text` is set
        before."""
        self.exit_text = ""
        """How it died, such as `exited with status 3`; empty while it lives, and where it was we who ended it."""
        self.n_garbage = 0
        """Lines on stdout that were no messages, blank ones included."""
        self.first_garbage = ""
        """The first of them, cut and made readable."""
        self.n_messages = 0
        """Messages that it has sent."""
        self.pid: int | None = None
        """The process's id, once it was started."""
        self._environ = environ
        self._secrets = secrets_of(config)
        stderr.hide(self._secrets)

    @property
    def garbage_text(self) -> str:
        """What it writes to stdout that is no MCP, for a person, where it has sent no message; else empty."""
        if self.n_messages or not self.first_garbage:
            return ""
        return f"what it writes to stdout is no MCP, such as {self.first_garbage!r}"

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Start the process, give a session that is not yet initialized, and end the process tree when left.

        Raises:
            UpstreamError: the command can't be run, with where it was looked for.
        """
        options = transport_options or TransportOptions()
        process = await self._start()
        connection = _Connection(self, process)
        try:
            async with options.session_class(connection.reader, connection.writer, **session_kwargs) as session:
                yield session
        finally:
            await connection.end()

    async def _start(self) -> UpstreamProcess:
        self.died.clear()
        self.exit_text = self.first_garbage = ""
        self.n_garbage = self.n_messages = 0
        marker = self.guard.next_marker()
        try:
            program, env, folder = await in_daemon_thread(self._prepare)
            env |= self.guard.variables(marker, self._environ)
            arguments = [argument.get_secret_value() for argument in self.config.args]
            process = await UpstreamProcess.start(str(program), arguments, env=env, folder=folder, marker=marker)
        except CommandError as error:
            raise UpstreamError(self.config.name, "not found", self.shown(str(error))) from None
        except (OSError, ValueError) as error:
            raise UpstreamError(self.config.name, _cause(error), self.shown(_why(error))) from None
        self.pid = process.pid
        self.stderr.note(f"started, process {process.pid}")
        return process

    def shown(self, text: str) -> str:
        """Return a text without the secrets of the config."""
        return without(self._secrets, text)

    def _prepare(self) -> tuple[Path, dict[str, str], Path]:
        """Return the program, its environment and its folder, and have the guard run."""
        self.guard.start()
        env = child_environment(self.config, self._environ)
        home = Path(self._environ.get("HOME") or Path.home())
        folder = Path(with_home(self.config.cwd or "", home)).absolute()
        paths = [self._environ.get("PATH", "")]
        if is_configured := "PATH" in self.config.env:
            paths.insert(0, env["PATH"])
        program = find_program(self.config.command, path=os.pathsep.join(paths), folder=folder, home=home)
        env["PATH"] = child_path(env.get("PATH", ""), program, home, is_configured=is_configured)
        return program, env, folder


class _Connection:
    """What lives as long as a process: its streams, its stderr, and what is heard of them."""

    def __init__(self, upstream: StdioUpstream, process: UpstreamProcess) -> None:
        self._upstream, self._process = upstream, process
        self._timer: asyncio.TimerHandle | None = None
        self._pump = StderrPump(process, upstream.stderr.feed)
        self._n_told = self._n_lines = self._n_bytes = 0
        self.reader = MessageReader(process, self, IncomingMessage(upstream.limits, upstream.unfinished))
        self.writer = MessageWriter(process, self._stdin_closed, upstream.died)

    def message(self) -> None:
        """Count a message."""
        self._upstream.n_messages += 1
        self._n_lines = self._n_bytes = 0

    def garbage(self, line: bytes | bytearray) -> None:
        """Count a line that is no message, log the first ones, and end it where there is nothing else for too long."""
        upstream, limits = self._upstream, self._upstream.limits
        upstream.n_garbage += 1
        self._n_lines += 1
        self._n_bytes += len(line)
        if self._n_told < _TOLD_GARBAGE_LINES and line.strip():
            self._n_told += 1
            text = upstream.shown(readable(bytes(line[:_TOLD_CHARACTERS])))
            upstream.first_garbage = upstream.first_garbage or text
            upstream.stderr.note(f"on stdout, no message: {text}")
        if self._n_lines >= limits.garbage_lines or self._n_bytes >= limits.garbage_bytes:
            example = f", such as {upstream.first_garbage!r}" if upstream.n_messages and upstream.first_garbage else ""
            much = f"{self._n_lines:,} lines ({self._n_bytes / MIB:,.1f} MiB)"
            self.reader.cut(f"wrote {much} to stdout with no message among them{example}")

    async def at_end(self, reason: str) -> None:
        """Tell how the process died, before those hear of it who wait for answers."""
        if not reason:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.exited.wait(), CLOSED_S)
        self._tell(self._process.exit_text or reason or "closed its stdout")

    async def end(self) -> None:
        """End the process with all that it started, whoever is cancelled meanwhile."""
        survivors: list[Entry] = []
        try:
            with anyio.CancelScope(shield=True):
                survivors = await self._process.end()
        finally:
            if self._timer:
                self._timer.cancel()
            self._tell("")
            self.reader.drop()
            self._pump.close()
            self._process.close()
        for entry in survivors:
            logger.warning("upstream %r: process %d could not be ended", self._upstream.config.name, entry.pid)

    def _stdin_closed(self) -> None:
        # As a rule it is exiting, and more is to be read: its last answers, and how it ends.
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CLOSED_S, self.reader.end, "closed its stdin")

    def _tell(self, exit_text: str) -> None:
        upstream = self._upstream
        if not upstream.died.is_set():
            self._pump.catch_up()
            if exit_text:
                upstream.exit_text = "; ".join(filter(None, (exit_text, upstream.garbage_text)))
            upstream.stderr.note(exit_text or "was stopped")
            upstream.died.set()


_SCARCE = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}


def _cause(error: OSError | ValueError) -> Cause:
    return "did not start" if isinstance(error, OSError) and error.errno in _SCARCE else "not found"


def _why(error: OSError | ValueError) -> str:
    """Return why a program that is there could not be started."""
    if not isinstance(error, OSError):
        return f"it can't be run with these arguments and variables: {error}"
    if error.filename is None:
        return f"it can't be run: {error.strerror}"
    if error.errno == errno.ENOEXEC:
        return f"{error.filename!r} is no program, and has no first line that names its interpreter (`#!`)"
    if error.errno == errno.ENOENT:
        return f"{error.filename!r} is there, but not the loader that it needs: it was built for another system"
    return f"{error.filename!r} can't be run: {error.strerror}"
