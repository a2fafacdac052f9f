"""A connection to a process over its stdin and stdout: bounded, passing over garbage, ended with all it started."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import ObjectReceiveStream
from mcp.shared.message import SessionMessage

from agent_utilities.runtime.waiting import in_daemon_thread, is_set
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.errors import Cause, UpstreamError
from agent_utilities.upstream.limits import MIB, IncomingMessage, Limits, TooMuchError, Turns, Unfinished
from agent_utilities.upstream.processes.messages import (
    Lines,
    MessageWriter,
    OverlongLine,
    read_line,
    too_long,
)
from agent_utilities.upstream.processes.process import CLOSED_S, ProcessGuard, UpstreamProcess
from agent_utilities.upstream.processes.program import (
    CommandError,
    child_environment,
    child_path,
    find_program,
    with_home,
)
from agent_utilities.upstream.processes.stderr_log import StderrLog, readable
from agent_utilities.upstream.secrets import secrets_of, without

_TOLD_GARBAGE_LINES = 20
_TOLD_CHARACTERS = 200


class StdioUpstream:
    """One process, started once by `streams` and ended, with all that it started, when that is left.

    Args:
        limits: what it may send; the config's where None. A longer answer becomes an error that says so.
    """

    is_handshake_only = False
    """Whether it carries nothing but the handshake's era."""

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
        self.first_garbage = ""
        """The first line on stdout that was no message, cut and made readable."""
        self.n_messages = 0
        """Messages that it has sent."""
        self.pid: int | None = None
        """The process's id, once it was started."""
        self._environ = environ
        self._secrets = secrets_of(config)
        stderr.hide(self._secrets)

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[ObjectReceiveStream[SessionMessage], MessageWriter]]:
        """Start the process, give what it says and what it is told, and end the process tree when left.

        Raises:
            UpstreamError: the command can't be run, with where it was looked for.
        """
        process = await self._start()
        messages = _Messages(self, process)
        try:
            yield messages, MessageWriter(process.stdin, self.died)
        finally:
            await messages.end()

    async def _start(self) -> UpstreamProcess:
        try:
            program, env, folder = await in_daemon_thread(self._prepare)
            arguments = [argument.get_secret_value() for argument in self.config.args]
            process = await UpstreamProcess.start(
                str(program), arguments, env=env, folder=folder, guard=self.guard, on_stderr=self.stderr.feed
            )
        except CommandError as error:
            raise UpstreamError(self.config.name, "not found", self.shown(str(error))) from None
        except (OSError, ValueError) as error:
            is_scarce = isinstance(error, OSError) and error.errno in _SCARCE
            cause: Cause = "did not start" if is_scarce else "not found"
            raise UpstreamError(self.config.name, cause, self.shown(_why(error))) from None
        self.pid = process.pid
        self.stderr.note(f"started, process {process.pid}")
        return process

    def shown(self, text: str) -> str:
        """Return a text without the secrets of the config."""
        return without(self._secrets, text)

    def _prepare(self) -> tuple[Path, dict[str, str], Path]:
        """Return the program, its environment and its folder."""
        env = child_environment(self.config, self._environ)
        home = Path(self._environ.get("HOME") or Path.home())
        folder = Path(with_home(self.config.cwd or "", home)).absolute()
        paths = [self._environ.get("PATH", "")]
        if is_configured := "PATH" in self.config.env:
            paths.insert(0, env["PATH"])
        program = find_program(self.config.command, path=os.pathsep.join(paths), folder=folder, home=home)
        env["PATH"] = child_path(env.get("PATH", ""), program, home, is_configured=is_configured)
        return program, env, folder


class _Messages(ObjectReceiveStream[SessionMessage]):
    """The messages of a process, read when they are asked for, and why they end."""

    def __init__(self, upstream: StdioUpstream, process: UpstreamProcess) -> None:
        self._upstream, self._process, self._limits = upstream, process, upstream.limits
        self._turns = Turns()
        self._lines = Lines(process.stdout, IncomingMessage(upstream.limits, upstream.unfinished), self._turns)
        self._messages: deque[SessionMessage] = deque()
        self._watching_stdin = asyncio.create_task(self._watch_stdin())
        self._n_told = self._n_lines = self._n_bytes = 0
        self._cut_reason = ""
        self._is_stdin_closed = self._is_over = False

    async def receive(self) -> SessionMessage:
        """Return the next message.

        Raises:
            anyio.EndOfStream: the process has exited, or closed a pipe.
        """
        if self._messages:  # of a batch, which may be long
            await self._turns.after(0)
        while not self._messages:
            if self._is_over:
                raise anyio.EndOfStream
            try:
                line = None if self._cut_reason else await self._lines.next_line()
            except TooMuchError as error:
                line, self._cut_reason = None, f"wrote {error}"
            if line is None:
                await self._finish()
            else:
                began_s = asyncio.get_running_loop().time()
                self._take(line)
                n_bytes = 0 if isinstance(line, OverlongLine) else len(line)
                await self._turns.after(n_bytes, asyncio.get_running_loop().time() - began_s)
        self._upstream.n_messages += 1
        self._n_lines = self._n_bytes = 0
        return self._messages.popleft()

    async def aclose(self) -> None:
        """Read no more."""
        self._is_over = True

    async def _finish(self) -> None:
        """Tell how the process died, before those hear of it who wait for answers."""
        if not self._cut_reason and not self._is_stdin_closed:
            await is_set(self._process.exited, within_s=CLOSED_S)
        if not self._upstream.died.is_set():
            await self._process.take_last_words()
        closed = f"closed its {'stdin' if self._is_stdin_closed else 'stdout'}"
        self._tell(self._process.exit_text or self._cut_reason or closed)
        self._is_over = True

    def _take(self, line: bytearray | OverlongLine) -> None:
        if isinstance(line, OverlongLine):
            messages = too_long(line)
            if not messages:
                self._cut_reason = f"wrote a line of {line.n_bytes / MIB:,.4g} MiB, {line.why}"
        else:
            messages = read_line(line, self._limits)
            if not messages:
                self._count_garbage(line)
        self._messages.extend(map(SessionMessage, messages))

    def _count_garbage(self, line: bytearray) -> None:
        """Count a line that is no message, log the first ones, and end it where there is nothing else for too long."""
        upstream, limits = self._upstream, self._limits
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
            self._cut_reason = f"wrote {much} to stdout with no message among them{example}"

    async def _watch_stdin(self) -> None:
        """End it where it has closed its stdin: as a rule it is exiting, and its last answers are to be read."""
        with suppress(OSError):
            await self._process.stdin.wait_closed()
        await asyncio.sleep(CLOSED_S)
        self._is_stdin_closed = True
        self._process.end_reading(self._process.stdout)

    async def end(self) -> None:
        """End the process with all that it started, whoever is cancelled meanwhile."""
        self._watching_stdin.cancel()
        try:
            with anyio.CancelScope(shield=True):
                await self._process.end()
        finally:
            self._tell("")
            self._process.close()

    def _tell(self, exit_text: str) -> None:
        upstream = self._upstream
        if upstream.died.is_set():
            return
        if exit_text:
            is_mcp = upstream.n_messages or not upstream.first_garbage
            garbage = "" if is_mcp else f"; what it writes to stdout is no MCP, such as {upstream.first_garbage!r}"
            upstream.exit_text = exit_text + garbage
        upstream.stderr.note(exit_text or "was stopped")
        upstream.died.set()


_SCARCE = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}


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
