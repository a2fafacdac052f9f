"""The stdio transport: messages of a process on its stdin and stdout, bounded, with garbage skipped."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import anyio
import mcp_types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.errors import Cause, UpstreamError, read_json, with_own_error
from agent_utilities.gateway.upstreams.limits import MIB, IncomingMessage, Limits, TooMuchError, Turns, Unfinished
from agent_utilities.gateway.upstreams.processes.process import (
    CLOSED_S,
    MAX_QUEUED_BYTES,
    ProcessGuard,
    UpstreamProcess,
)
from agent_utilities.gateway.upstreams.processes.program import (
    CommandError,
    child_environment,
    child_path,
    find_program,
    with_home,
)
from agent_utilities.gateway.upstreams.processes.stderr_log import StderrLog, readable
from agent_utilities.gateway.upstreams.secrets import secrets_of, without
from agent_utilities.runtime.process_io import expanded
from agent_utilities.runtime.waiting import in_daemon_thread, is_set

_TOLD_GARBAGE_LINES = 20
_TOLD_CHARACTERS = 200


class StdioUpstream(ObjectReceiveStream[SessionMessage]):
    """One process, started by `streams`, and ended with its whole tree when that block ends; read on demand."""

    is_handshake_only = False
    """Whether it carries the handshake's era alone."""

    def __init__(
        self,
        config: UpstreamConfig,
        *,
        environ: Mapping[str, str],
        stderr: StderrLog,
        guard: ProcessGuard,
        unfinished: Unfinished,
    ) -> None:
        self.config, self.stderr, self.guard = config, stderr, guard
        self.limits = config.limits
        """An answer over a limit becomes an error that says so."""
        self.died = asyncio.Event()
        """Set once the process has exited or closed a pipe, so that no answer can come; `exit_text` is set before."""
        self.exit_text = ""
        """How it died, such as `exited with status 3`; empty while it lives, and where the gateway ended it."""
        self.first_garbage = ""
        """The first line on stdout that was no message, cut and made readable."""
        self.pid: int | None = None
        self._environ, self._unfinished = environ, unfinished
        self._secrets = secrets_of(config)
        self._turns = Turns()
        self._messages: deque[SessionMessage] = deque()
        self._n_told = self._n_lines = self._n_bytes = 0
        self._cut_reason = ""
        self._has_spoken = self._is_stdin_closed = self._is_over = False
        stderr.hide(self._secrets)

    @property
    def is_at_end(self) -> bool:
        """Whether its stdout has ended, so that no further call is answered; `died` comes later."""
        return self._process.stdout.at_eof()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[ObjectReceiveStream[SessionMessage], MessageWriter]]:
        """Start the process, or raise `UpstreamError`; yield its streams of messages; end its tree with the block."""
        process = self._process = await self._start()
        self._lines = Lines(process.stdout, IncomingMessage(self.limits, self._unfinished), self._turns)
        watching_stdin = asyncio.create_task(self._watch_stdin())
        try:
            yield self, MessageWriter(process.stdin, self.died)
        finally:
            watching_stdin.cancel()
            try:
                with anyio.CancelScope(shield=True):
                    await process.end()
            finally:
                self._tell("")
                process.close()

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
        env = child_environment(self.config, self._environ)
        home = Path(self._environ.get("HOME") or expanded("~"))
        folder = Path(with_home(self.config.cwd or "", home)).absolute()
        paths = [self._environ.get("PATH", "")]
        if is_configured := "PATH" in self.config.env:
            paths.insert(0, env["PATH"])
        program = find_program(self.config.command, path=os.pathsep.join(paths), folder=folder, home=home)
        env["PATH"] = child_path(env.get("PATH", ""), program, home, is_configured=is_configured)
        return program, env, folder

    async def receive(self) -> SessionMessage:
        """Return the next message; `anyio.EndOfStream` where the process has exited, or closed a pipe."""
        if self._messages:  # of a batch
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
                began_s = time.monotonic()  # the loop's clock may stand still for a turn
                self._take(line)
                await self._turns.after(len(line.text), time.monotonic() - began_s)
        self._has_spoken = True
        self._n_lines = self._n_bytes = 0
        return self._messages.popleft()

    async def aclose(self) -> None:
        self._is_over = True

    async def _finish(self) -> None:
        """Set how the process died, before those who wait for answers get an error."""
        if not self._cut_reason and not self._is_stdin_closed:
            await is_set(self._process.exited, within_s=CLOSED_S)
        if not self.died.is_set():
            await self._process.take_last_words()
        closed = f"closed its {'stdin' if self._is_stdin_closed else 'stdout'}"
        self._tell(self._process.exit_text or self._cut_reason or closed)
        self._is_over = True

    def _take(self, line: Line) -> None:
        messages = read_line(line, self.limits)
        self._messages.extend(map(SessionMessage, messages))
        if not messages and line.too_long:
            self._cut_reason = f"wrote a line of {line.n_bytes / MIB:,.4g} MiB, {line.too_long}"
        elif not messages:
            self._count_garbage(line.text)

    def _count_garbage(self, line: bytearray) -> None:
        """Count a line that is no message; log the first ones, and end the process after too many in a row."""
        self._n_lines += 1
        self._n_bytes += len(line)
        if self._n_told < _TOLD_GARBAGE_LINES and line.strip():
            self._n_told += 1
            text = self.shown(readable(bytes(line[:_TOLD_CHARACTERS])))
            self.first_garbage = self.first_garbage or text
            self.stderr.note(f"on stdout, no message: {text}")
        if self._n_lines >= self.limits.garbage_lines or self._n_bytes >= self.limits.garbage_bytes:
            example = f", such as {self.first_garbage!r}" if self._has_spoken and self.first_garbage else ""
            much = f"{self._n_lines:,} lines ({self._n_bytes / MIB:,.1f} MiB)"
            self._cut_reason = f"wrote {much} to stdout with no message among them{example}"

    async def _watch_stdin(self) -> None:
        """End reading where the process has closed its stdin: it is exiting, and its last answers are still read."""
        with suppress(OSError):
            await self._process.stdin.wait_closed()
        await asyncio.sleep(CLOSED_S)
        self._is_stdin_closed = True
        self._process.end_reading(self._process.stdout)

    def _tell(self, exit_text: str) -> None:
        if self.died.is_set():
            return
        if exit_text:
            is_mcp = self._has_spoken or not self.first_garbage
            garbage = "" if is_mcp else f"; what it writes to stdout is no MCP, such as {self.first_garbage!r}"
            self.exit_text = exit_text + garbage
        self.stderr.note(exit_text or "was stopped")
        self.died.set()


_SCARCE = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM}


def _why(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return f"it can't be run with these arguments and variables: {error}"
    if error.filename is None:
        return f"it can't be run: {error.strerror}"
    if error.errno == errno.ENOEXEC:
        return f"{error.filename!r} is no program, and has no first line that names its interpreter (`#!`)"
    if error.errno == errno.ENOENT:
        runner = "the interpreter of its first line, which may end in a carriage return, or the loader of its system"
        return f"{error.filename!r} is there, but not what runs it: {runner}"
    return f"{error.filename!r} can't be run: {error.strerror}"


# -- messages as lines of JSON ----------------------------------------------------------------------------------------

_ENDS_BYTES = 4096
"""Bytes that are kept of both ends of a line that is too long, for its id."""
_ID_FIRST = re.compile(rb'^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+|"[^"\\]*")\s*[,}]')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$')
_MESSAGE_WITHIN = re.compile(rb'\{\s*"(?:jsonrpc|id|result|method)"\s*:')


class Line(NamedTuple):
    """A line on a process's stdout.

    Args:
        text: the line with its line break, if any; of one that is too long only both ends.
        too_long: the limit that it exceeds; empty where it does not.
    """

    text: bytearray
    n_bytes: int
    too_long: str = ""


class Lines:
    """The lines on a process's stdout, read in time and memory proportional to their size."""

    def __init__(self, stdout: asyncio.StreamReader, message: IncomingMessage, turns: Turns) -> None:
        self._stdout, self._message, self._turns = stdout, message, turns

    async def next_line(self) -> Line | None:
        """Return the next line; None at the end; `TooMuchError` where a line that is too long does not end."""
        text, n_bytes, too_long, is_whole = bytearray(), 0, "", False
        try:
            while not is_whole:
                piece, is_whole = await self._piece()
                if not is_whole:
                    await self._turns.after(len(piece))
                text += piece
                n_bytes += len(piece)
                if not too_long:
                    try:
                        self._message.has(n_bytes)
                    except TooMuchError as error:
                        too_long = str(error)
                        self._message.has(0)
                if too_long:
                    del text[_ENDS_BYTES:-_ENDS_BYTES]
                    if not is_whole and n_bytes > (limit := self._message.limits.upstream_bytes):
                        raise TooMuchError(f"a line of over {limit / MIB:,.4g} MiB without an end")
        finally:
            self._message.has(0)
        return Line(text, n_bytes, too_long) if text else None

    async def _piece(self) -> tuple[bytes, bool]:
        try:
            return await self._stdout.readuntil(), True
        except asyncio.LimitOverrunError as error:
            return await self._stdout.readexactly(error.consumed), False
        except asyncio.IncompleteReadError as error:
            return error.partial, True
        except OSError:
            return b"", True


def read_line(line: Line, limits: Limits) -> list[mcp_types.JSONRPCMessage]:
    """Return the messages of a line: one, or those of a batch; none where it is no message.

    A message may follow other text on its line. An answer that is too long or invalid becomes an error, so that its
    caller does not wait on.
    """
    text = line.text
    if line.too_long:
        return _unreadable(text, f"of {line.n_bytes / MIB:,.4g} MiB is dropped: it is {line.too_long}")
    if not text.strip():
        return []
    within = _MESSAGE_WITHIN.search(text, 0, 4096) if not text.startswith((b"{", b"[")) else None
    if within:
        text = text[within.start() :]
    try:
        limits.check_values(text)
        value = read_json(text)
        batch = value if isinstance(value, list) else [value]
        read = mcp_types.jsonrpc_message_adapter.validate_python
        return [read(with_own_error(item), by_name=False) for item in batch]
    except (ValueError, RecursionError) as error:
        why = "it is no JSON-RPC message" if isinstance(error, ValidationError) else error
        return _unreadable(text, f"could not be read: {why}")


def _unreadable(text: bytearray, reason: str) -> list[mcp_types.JSONRPCMessage]:
    """Return an error in place of an answer, with the id at its beginning or end; nothing where there is none."""
    match = _ID_FIRST.search(text[:_ENDS_BYTES]) or _ID_LAST.search(text[-_ENDS_BYTES:])
    if match is None:
        return []
    error = mcp_types.ErrorData(code=mcp_types.INTERNAL_ERROR, message=f"the server's answer {reason}")
    return [mcp_types.JSONRPCError(jsonrpc="2.0", id=json.loads(match.group(1)), error=error)]


class MessageWriter(ObjectSendStream[SessionMessage]):
    """Writes messages to a process's stdin, in whole lines; a process that reads none delays only its own callers."""

    def __init__(self, stdin: asyncio.StreamWriter, died: asyncio.Event) -> None:
        self._stdin, self._died = stdin, died
        self._is_closed = False

    async def send(self, item: SessionMessage) -> None:
        """Write a message; wait while too much is queued for the process.

        Raises:
            anyio.ClosedResourceError: the stream was closed.
            anyio.BrokenResourceError: the process has closed its stdin.
        """
        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        with suppress(OSError):  # a broken pipe raises below
            while self._stdin.transport.get_write_buffer_size() > MAX_QUEUED_BYTES and not self._is_closed:
                message = item.message
                if isinstance(message, mcp_types.JSONRPCNotification) and message.method == "notifications/cancelled":
                    return  # giving up a call must not wait
                await self._stdin.drain()
        if self._is_closed:
            raise anyio.ClosedResourceError
        if not self._stdin.is_closing():
            self._stdin.write(line)
        if self._stdin.is_closing():
            # `exit_text` is set first, which takes two of them on a calm machine.
            await is_set(self._died, within_s=10 * CLOSED_S)
            raise anyio.BrokenResourceError

    async def aclose(self) -> None:
        """Take no more messages, and drop queued ones."""
        self._is_closed = True
        if not self._stdin.is_closing():
            self._stdin.transport.abort()
