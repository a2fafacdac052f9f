"""A connection to a process over its stdin and stdout: bounded, passing over garbage, and ended with all it started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Unpack

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastmcp.client.transports.base import ClientTransport, SessionKwargs, TransportOptions
from mcp import ClientSession
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.process_guard import ProcessGuard
from agent_utilities.upstream.stderr_log import StderrLog

_Send = MemoryObjectSendStream[SessionMessage | Exception]
_Receive = MemoryObjectReceiveStream[SessionMessage]


class StdioUpstream(ClientTransport):
    """One process, started by `connect_session` and ended, with all that it started, when that is left.

    Args:
        config: what is started, and how.
        environ: the gateway's own environment, of which a few harmless variables are passed on.
        stderr: takes what it writes to stderr.
        guard: ends it where the gateway can't.
    """

    def __init__(
        self, config: UpstreamConfig, *, environ: Mapping[str, str], stderr: StderrLog, guard: ProcessGuard
    ) -> None:
        self.config, self.stderr, self.guard = config, stderr, guard
        self._environ = environ
        self.died = asyncio.Event()
        """Set once the process has exited or closed its stdout, when calls have no answer to wait for."""
        self.exit_text = ""
        """How it died, such as `exited with status 3`; empty while it lives."""
        self.pid: int | None = None

    @asynccontextmanager
    async def connect_session(
        self, *, transport_options: TransportOptions | None = None, **session_kwargs: Unpack[SessionKwargs]
    ) -> AsyncIterator[ClientSession]:
        """Start the process, give a session that is not yet initialized, and end the process tree when left.

        Raises:
            UpstreamError: the command can't be run, with where it was looked for.
        """
        process = await self._start()
        read_send, read_receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write_send, write_receive = anyio.create_memory_object_stream[SessionMessage](0)

        options = transport_options or TransportOptions()
        async with anyio.create_task_group() as group:
            group.start_soon(self._read, process, read_send)
            group.start_soon(self._write, process, write_receive)
            group.start_soon(self._log, process)
            try:
                async with options.session_class(read_receive, write_send, **session_kwargs) as session:
                    yield session
            finally:
                with anyio.CancelScope(shield=True):
                    assert process.stdin
                    process.stdin.close()
                    with anyio.move_on_after(1):
                        await process.wait()
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
                group.cancel_scope.cancel()

    async def _start(self) -> asyncio.subprocess.Process:
        self.guard.start()
        env = get_default_environment() | {k: v.get_secret_value() for k, v in self.config.env.items()}
        env |= self.guard.variables(self.guard.next_marker())
        try:
            process = await asyncio.create_subprocess_exec(
                self.config.command,
                *(arg.get_secret_value() for arg in self.config.args),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=env,
                cwd=self.config.cwd,
                start_new_session=True,
            )
        except OSError as error:
            raise UpstreamError(self.config.name, "not found", str(error)) from error
        self.pid = process.pid
        return process

    async def _read(self, process: asyncio.subprocess.Process, read_send: _Send) -> None:
        assert process.stdout
        buffer = bytearray()
        async with read_send:
            while chunk := await process.stdout.read(1 << 16):
                buffer += chunk
                *lines, rest = bytes(buffer).split(b"\n") if b"\n" in chunk else [bytes(buffer)]
                buffer = bytearray(rest)
                for line in lines:
                    try:
                        message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        continue
                    with suppress(anyio.BrokenResourceError):
                        await read_send.send(SessionMessage(message))
            with anyio.move_on_after(0.3):
                await process.wait()
            status = process.returncode
            self.exit_text = "closed its stdout" if status is None else f"exited with status {status}"
            self.died.set()

    async def _write(self, process: asyncio.subprocess.Process, write_receive: _Receive) -> None:
        assert process.stdin
        with suppress(ConnectionError):
            async with write_receive:
                async for message in write_receive:
                    line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    process.stdin.write(line.encode() + b"\n")
                    await process.stdin.drain()

    async def _log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr
        while chunk := await process.stderr.read(1 << 16):
            self.stderr.feed(chunk)
