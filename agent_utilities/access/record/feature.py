"""The audit feature: opens the record of calls with the server where `audit_file` is set, and closes it with it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_utilities.access.record.chain import ENOUGH
from agent_utilities.access.record.log import AuditLog, RecordFile
from agent_utilities.access.record.record import REACHED, Record
from agent_utilities.access.refusals import noted
from agent_utilities.compat.telemetry import LogRecord, SeverityNumber, get_logger, get_logger_provider
from agent_utilities.errors import SettingsError
from agent_utilities.runtime.process_io import expanded
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import CallRecord, Host

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


TELEMETRY = "otel"
"""The value of `audit_file` for OpenTelemetry's logs in place of a file."""
_DAY_S = 86_400
_OF_TOKENS = (401, 403)
"""Statuses that are recorded only for requests with a token: clients send one without it to discover the login."""
_STATUSES = frozenset((400, *_OF_TOKENS, 421, 503))
_MINUTE_S = 60
_REFUSED_A_MINUTE = 300
"""The most lines a minute for requests refused before their caller is known; further ones are counted in one line."""


class Audit(Feature):
    """Records calls and their callers, refusals, and changes of policy."""

    name = "audit"
    hears = (Event,)

    def attach(self, host: Host) -> None:
        """Offer the record, which holds from the first request on; its file is made when the server starts."""
        super().attach(host)
        self._settings = host.operator.settings
        self._is_telemetry = self._settings.audit_file == TELEMETRY
        self._record = Record(host, self._new_log(), self._recording)
        self._n_refused = 0
        host.offer(CallRecord, lambda: self._record)

    def _new_log(self) -> AuditLog:
        settings = self._settings
        path = expanded(settings.audit_file).absolute()
        size, age_s = settings.audit_max_mb << 20, settings.audit_days * _DAY_S
        file = OpenTelemetryLogs() if self._is_telemetry else RecordFile(path, size, age_s)
        opening = {"event": "opened", "server": self.host.name, "pid": os.getpid(), "mode": settings.audit_mode}
        return AuditLog(file, opening)

    def check(self) -> None:
        """Refuse a file that can't be written, and OpenTelemetry where nothing receives the record.

        Raises:
            SettingsError: the file is a folder, a device or a link; or OpenTelemetry is not set up, or is required.
        """
        path, value = self._record.log.file.path, self._settings.audit_file
        if self._is_telemetry:
            if self._settings.audit_mode == "required":
                hint = "name a file: OpenTelemetry does not tell whether a line was taken"
                raise SettingsError("audit_mode=required beside OpenTelemetry", value, "audit_file", hint)
            # The API's own provider drops all.
            if type(get_logger_provider()).__module__.startswith("opentelemetry._logs"):
                hint = "set a provider of its SDK"
                raise SettingsError("OpenTelemetry logs are not set up", value, "audit_file", hint)
        elif path.is_symlink() or (path.exists() and not path.is_file()):
            raise SettingsError("audit_file is no plain file", value, "audit_file", "name a file, or one to be made")

    async def run(self) -> None:
        """Write until cancelled, then flush; a server that is started again begins another chain."""
        log = self._record.log
        log.start()
        try:
            await asyncio.Event().wait()
        finally:
            self._end_minute()
            await log.close({"event": "closed"})
            self._record.log = self._new_log()

    def notify(self, event: Event) -> None:
        """Record the line of an event, if it has one."""
        if (line := event.recorded()) is not None:
            self._record.note(*line)

    def start_lines(self) -> Sequence[str]:
        is_required = self._settings.audit_mode == "required"
        otherwise = "is refused" if is_required else "is made, and its lines counted as lost"
        return [f"calls are recorded in {self._record.log.file.path}; one that can't be {otherwise}"]

    def health(self) -> Mapping[str, Any]:
        return {"audit": self._record.log.health()}

    def register_metrics(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Gauge

        for state in ("written", "waiting", "lost"):
            gauge = Gauge(f"mcp_audit_lines_{state}", f"Lines of the audit record: {state}.", registry=registry)
            gauge.set_function(partial(lambda key: int(self._record.log.health()[key]), f"n_{state}"))

    # -- requests that are refused over HTTP before the SDK's server sees them -----------------------------------------

    def _recording(self, app: ASGIApp) -> ASGIApp:
        """Return ASGI middleware that records the requests which the application refuses by itself."""

        async def recording(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return await app(scope, receive, send)
            reached, status = scope.setdefault(REACHED, []), 0

            async def note(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                elif status in _STATUSES and not reached:
                    reached.append(True)
                    if status not in _OF_TOKENS or "authorization" in Headers(scope=scope):
                        self._note_refused(status, scope["path"], message.get("body", b""))
                await send(message)

            await app(scope, receive, note)

        return recording

    def _note_refused(self, status: int, path: str, body: bytes) -> None:
        """Record a refused request; since a stranger may send any number, only so many a minute have a line."""
        if not self._n_refused:
            asyncio.get_running_loop().call_later(_MINUTE_S, self._end_minute)
        self._n_refused += 1
        if self._n_refused > _REFUSED_A_MINUTE:
            return
        said = {"status": status, "path": path[:ENOUGH]}
        if status != 400 and (why := noted()) is not None:
            self._record.note("refused", said, reason=why.text)
        else:
            self._record.note("refused", {**said, "reason": body[:ENOUGH].decode(errors="replace")})

    def _end_minute(self) -> None:
        if (n_more := self._n_refused - _REFUSED_A_MINUTE) > 0:
            self._record.note("refused", {"n_more": n_more})
        self._n_refused = 0


class OpenTelemetryLogs(RecordFile):
    """OpenTelemetry's logs in place of a file: the body of each log record is a line of the file."""

    def __init__(self) -> None:
        super().__init__(Path(TELEMETRY), 0, 0.0)
        self._logger = get_logger("agent_utilities.audit")

    def append(self, data: bytes) -> None:
        now_ns = time.time_ns()
        for text in data.decode().splitlines():
            self._logger.emit(LogRecord(timestamp=now_ns, severity_number=SeverityNumber.INFO, body=text))
