"""The record of calls, written by the host around each, so that no feature can leave one out; imported where on."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from opentelemetry import trace
from pydantic import BaseModel
from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp

from agent_utilities.access.record.chain import ENOUGH, cut, line, n_bytes_of
from agent_utilities.access.record.log import AuditLog, Fields, RecordError
from agent_utilities.policy.bounds import fits
from agent_utilities.policy.decision import Decision
from agent_utilities.selection.model import fold
from agent_utilities.server.feature import BoundError, Refusal
from agent_utilities.server.request import Call, Request, sender_of
from agent_utilities.server.sessions import Caller
from agent_utilities.usage.redaction import without_secrets

if TYPE_CHECKING:
    from agent_utilities.server.agent_server import AgentServer

REACHED = "agent_utilities.recorded"
"""Where an HTTP request's scope has whether what becomes of it is told by `Record`."""

_about: ContextVar[dict[str, Any] | None] = ContextVar("agent_utilities_recorded_call", default=None)
"""What the lines of the call under way have in common; empty until its first one is written."""


class Record:
    """Middleware of the SDK's server, outermost: each call has a line before and one after it, a refused one has one.

    Args:
        host: the server, whose settings say how.
        log: what is written to.
        of_http: returns an application around another, which records what that refuses by itself.
    """

    def __init__(self, host: AgentServer, log: AuditLog, of_http: Callable[[ASGIApp], ASGIApp]) -> None:
        self._host, self.log, self.of_http = host, log, of_http
        settings = host.surface.operator.settings
        self._is_required = settings.audit_mode == "required"
        self._arguments = frozenset(fold(name) for name in settings.audit_arguments.replace(",", " ").split())
        self._numbers = count(1)
        self._seen: LRUCache[bytes, None] = LRUCache(20_000)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if isinstance(ctx.request, HttpRequest):
            ctx.request.scope.get(REACHED, []).append(True)
            caller = sender_of(ctx.request)
            if caller is not None and caller.token:
                digest = blake2b(caller.token.encode(), digest_size=16).digest()
                if digest not in self._seen:
                    self._seen[digest] = None
                    self.note("login", self._who(caller))
        if ctx.method != "tools/call":
            return await call_next(ctx)
        about: dict[str, Any] = {}
        told, problem = {"outcome": "error", "bytes": 0}, ""
        started_s, token = time.perf_counter(), _about.set(about)
        try:
            result = await call_next(ctx)
            given = result.model_dump(by_alias=True) if isinstance(result, BaseModel) else result or {}
            told = {"outcome": "error" if given.get("isError") else "ok", "bytes": await n_bytes_of(given)}
            if not about:
                problem = next((part.get("text", "") for part in given.get("content", ())), "")
            return result
        except BaseException as error:
            problem = str(error) or type(error).__name__
            told["outcome"] = "error"
            raise
        finally:
            _about.reset(token)
            ms = round(1000 * (time.perf_counter() - started_s), 3)
            self.ended(ctx, about, told, {"reason": problem[:ENOUGH], "ms": ms})

    def ended(self, ctx: ServerRequestContext[Any, Any], about: Fields, told: Fields, said: Fields) -> None:
        """Record how a call ended; one that came to no first line was refused."""
        if not about:
            tool = {"tool": str((ctx.params or {}).get("name"))[:ENOUGH], "verdict": "refused"}
            self.note("refused", {**self._who(sender_of(ctx.request)), **tool, **said})
        elif about["verdict"] == "permitted" or told["outcome"] == "ok":
            self.note("result", {**about, **told, **said})

    async def began(self, request: Request, call: Call, decision: Decision, tied_to: str) -> None:
        """Record that a call is about to be served: of a tool that its caller may use, or of a name that they may not.

        Raises:
            Refusal: it can't be recorded, and has to be.
        """
        if (about := _about.get()) is None:
            return
        said = {**self._who(request.caller), "revision": tied_to, **await self._verdict(call.name, request, decision)}
        own = {"reason": said.pop("reason", "")}
        is_told = self._arguments and fits(fold(call.name), self._arguments)
        asked = {**said, "arguments": cut(call.arguments)} if is_told else said
        fields = partial(line, "call" if said["verdict"] == "permitted" else "refused", asked, own, without_secrets)
        try:
            await self.log.written(fields) if self._is_required else self.log.note(fields)
        except RecordError as error:
            raise Refusal(f"not called: it can't be written to the audit record: {error}; try later") from None
        about |= said

    async def _verdict(self, name: str, request: Request, decision: Decision) -> dict[str, Any]:
        """Return what is said of a name; denied and unknown ones take the same work (law L1)."""
        catalog = decision.catalog
        if name in decision.permitted_names:
            upstream = self._host.known_tools.named(catalog, name).server
            return {"tool": name, "verdict": "permitted", "upstream": upstream}
        places = catalog.places_by_own_name.get(name, ())
        if await self._host.features.tool(name, request) is not None:
            return {"tool": name, "verdict": "permitted"}
        if not places:
            return {"tool": name[:ENOUGH], "verdict": "unknown"}
        reason = next((rule.text for rule in (decision.refusals[place] for place in places) if rule is not None), "")
        return {"tool": name, "verdict": "denied", "reason": reason}

    def _who(self, caller: Caller | None) -> dict[str, Any]:
        span = trace.get_current_span()
        if span.is_recording():
            span.set_attribute("agent_utilities.audit_head", str(self.log.head))
        said: dict[str, Any] = {"call": next(self._numbers), "trace": span.get_span_context().trace_id}
        if caller is not None:
            said |= {"issuer": caller.issuer, "subject": caller.subject, "client": caller.client}
            with suppress(BoundError):
                grant = self._host.callers.grant_of(caller)
                said["rule"] = None if grant is None else grant.rule
        return said

    def note(self, event: str, said: Fields, **own: str) -> None:
        """Record an event; what callers may have written stands in `said`, and texts of this server's own beside it."""
        self.log.note(partial(line, event, said, own, without_secrets))
