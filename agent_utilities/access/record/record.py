"""The record of calls, written by the host around each, so that no feature can omit one; imported if configured."""

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
from agent_utilities.seam.caller import Caller
from agent_utilities.seam.feature import BoundError, OwnTool, Refusal
from agent_utilities.seam.request import RESULT_TOKENS, Call, Request, sender_of
from agent_utilities.selection.model import fold
from agent_utilities.usage.redaction import without_secrets

if TYPE_CHECKING:
    from agent_utilities.seam.host import Host

REACHED = "agent_utilities.recorded"
"""The key, in an HTTP request's scope, of the mark that `Record` has the request and records its outcome."""

_ASKED = "asked"
"""The verdict on a call that waits for somebody's answer, and the event of its line."""
_about: ContextVar[tuple[dict[str, Any], list[Request]] | None] = ContextVar(
    "agent_utilities_recorded_call", default=None
)
"""The common fields of the lines of the call under way, and its request; none until its first line is written."""


class Record:
    """Outermost middleware of the SDK's server: writes a line before and after each call, and one for a refused call.

    Args:
        host: the server, with the settings of the record.
        log: the log that lines are written to.
        of_http: makes ASGI middleware that records the requests which an application refuses by itself.
    """

    def __init__(self, host: Host, log: AuditLog, of_http: Callable[[ASGIApp], ASGIApp]) -> None:
        self._host, self.log, self.of_http = host, log, of_http
        settings = host.operator.settings
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
        requests: list[Request] = []
        outcome, problem = {"outcome": "error", "bytes": 0}, ""
        started_s, token = time.perf_counter(), _about.set((about, requests))
        try:
            result = await call_next(ctx)
            content = result.model_dump(by_alias=True) if isinstance(result, BaseModel) else result or {}
            outcome = {"outcome": "error" if content.get("isError") else "ok", "bytes": await n_bytes_of(content)}
            if not about:
                problem = next((part.get("text", "") for part in content.get("content", ())), "")
            return result
        except BaseException as error:
            problem = str(error) or type(error).__name__
            outcome["outcome"] = "error"
            raise
        finally:
            _about.reset(token)
            ms = round(1000 * (time.perf_counter() - started_s), 3)
            for request in requests:
                outcome |= zip(("result_tokens", "given_tokens"), request.values.get(RESULT_TOKENS, ()), strict=False)
            self.ended(ctx, about, outcome, {"reason": problem[:ENOUGH], "ms": ms})

    def ended(self, ctx: ServerRequestContext[Any, Any], about: Fields, outcome: Fields, said: Fields) -> None:
        """Record how a call ended; a call without a first line was refused."""
        if not about:
            tool = {"tool": str((ctx.params or {}).get("name"))[:ENOUGH], "verdict": "refused"}
            self.note("refused", {**self._who(sender_of(ctx.request)), **tool, **said})
        elif about["verdict"] == _ASKED:
            return  # its line says that it was not made
        elif about["verdict"] == "permitted" or outcome["outcome"] == "ok":
            self.note("result", {**about, **outcome, **said})

    async def began(
        self, request: Request, call: Call, decision: Decision, tied_to: str, *, is_asked: bool = False
    ) -> None:
        """Record that a call is about to be served, or waits: of a permitted tool, or of a denied or unknown name.

        Raises:
            Refusal: recording is required, and failed.
        """
        if (under_way := _about.get()) is None:
            return
        said = {**self._who(request.caller), "revision": tied_to, **await self._verdict(call.name, request, decision)}
        said |= {"within": request.within} if request.within else {}
        said |= {"verdict": _ASKED} if is_asked else {}
        own = {"reason": said.pop("reason", "")}
        has_arguments = self._arguments and fits(fold(call.name), self._arguments)
        with_arguments = {**said, "arguments": cut(call.arguments)} if has_arguments else said
        kind = {"permitted": "call", _ASKED: _ASKED}.get(said["verdict"], "refused")
        fields = partial(line, kind, with_arguments, own, without_secrets)
        try:
            await self.log.written(fields) if self._is_required else self.log.note(fields)
        except RecordError as error:
            raise Refusal(f"not called: it can't be written to the audit record: {error}; try later") from None
        about, requests = under_way
        about |= said
        requests.append(request)

    async def _verdict(self, name: str, request: Request, decision: Decision) -> dict[str, Any]:
        """Return the fields on a called name; denied and unknown ones take the same work (law L1)."""
        catalog = decision.catalog
        if name in decision.permitted_names:
            upstream = self._host.tool_facts(catalog, name).server
            return {"tool": name, "verdict": "permitted", "upstream": upstream}
        places = catalog.places_by_own_name.get(name, ())
        if isinstance(await self._host.component("tool", name), OwnTool):
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
                grant = self._host.grant_of(caller)
                said["rule"] = None if grant is None else grant.rule
        return said

    def note(self, event: str, said: Fields, **own: str) -> None:
        self.log.note(partial(line, event, said, own, without_secrets))
