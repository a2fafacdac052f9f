"""How a caller is asked: by a form in their client, in either era of the protocol, or by a line that names the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mcp_types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from agent_utilities.approvals.shown import fitted
from agent_utilities.approvals.store import Kind, Question
from agent_utilities.seam.request import Request

KEY = "agent-utilities-approval"
"""The key of our question among those of an input-required result."""
YES, NO, YES_FOR_SESSION = "yes", "no", "yes, for this session"
_STATE = "agent-utilities/approval "
_N_FIELDS = 5
"""The most questions of one form that have a field each."""
_SHOWN, _LEAST_SHOWN = 8_000, 400
"""About the most characters of arguments in one form, and the least of each question."""


class Brought(NamedTuple):
    """What a request brings back of an earlier round: a ticket, and our question's answer, if any."""

    kind: Kind
    ticket: str
    answer: Mapping[str, Any] | None


def state_of(kind: Kind, ticket: str, inner: object = None) -> str:
    """Return the `requestState` that brings a ticket back, around that of the tool's own question."""
    return _STATE + json.dumps([kind, ticket, inner if isinstance(inner, str) else None])


def brought(params: Mapping[str, Any]) -> tuple[Brought | None, Mapping[str, Any]]:
    """Return what a request brings for us, and its parameters as the tool is to have them."""
    state, responses = params.get("requestState"), params.get("inputResponses")
    if not isinstance(state, str) or not state.startswith(_STATE):
        return None, params
    kind, ticket, inner = json.loads(state.removeprefix(_STATE))
    theirs = {key: value for key, value in responses.items() if key != KEY} if isinstance(responses, Mapping) else {}
    rest = {key: value for key, value in params.items() if key not in ("requestState", "inputResponses")}
    rest |= ({"requestState": inner} if inner is not None else {}) | ({"inputResponses": theirs} if theirs else {})
    return Brought(kind, ticket, response(params, KEY)), rest


def response(params: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """Return the answer to a question that a request brings, or None."""
    responses = params.get("inputResponses")
    answer = responses.get(key) if isinstance(responses, Mapping) else None
    return answer if isinstance(answer, Mapping) else None


# -- what is read, and how it is answered ------------------------------------------------------------------------------


def message_of(questions: Sequence[Question]) -> str:
    """Return what a person reads before they answer; nothing in it comes from the tool but its name."""
    n, room = len(questions), max(_LEAST_SHOWN, _SHOWN // len(questions))
    texts = [
        f"{each.tool} of {each.server}, with these arguments (sha256 {each.digest}):\n{fitted(each.shown, room)}"
        for each in questions
    ]
    if n == 1:
        return f"May this tool be called?\n\n{texts[0]}"
    return "\n\n".join([f"May these {n} calls be made?", *(f"{i}. {text}" for i, text in enumerate(texts, 1))])


def schema_of(questions: Sequence[Question], *, offers_session: bool = False) -> dict[str, Any]:
    """Return the form: one answer for all, or one for each where they are few."""
    values = [NO, YES, YES_FOR_SESSION] if offers_session else [NO, YES]
    titles = ["May it be called?" if len(questions) == 1 else f"May all {len(questions)} be made?"]
    if len(names := _fields(questions)) > 1:
        titles = [f"{i}. {each.tool}" for i, each in enumerate(questions, 1)]
    fields = {
        name: {"type": "string", "title": title, "enum": values} for name, title in zip(names, titles, strict=True)
    }
    return {"type": "object", "properties": fields, "required": names}


def answers_of(
    questions: Sequence[Question], answer: Mapping[str, Any] | None, *, offers_session: bool = False
) -> list[str]:
    """Return the answer to each question: whatever is no yes that was offered is a no."""
    content = answer.get("content") if answer is not None and answer.get("action") == "accept" else None
    given = content if isinstance(content, Mapping) else {}
    offered = (YES, YES_FOR_SESSION) if offers_session else (YES,)
    said = [str(each) if (each := given.get(name)) in offered else NO for name in _fields(questions)]
    return said if len(said) == len(questions) else said * len(questions)


def _fields(questions: Sequence[Question]) -> list[str]:
    n = len(questions)
    return [f"answer{i}" for i in range(1, n + 1)] if 1 < n <= _N_FIELDS else ["answer"]


def input_required(questions: Sequence[Question], state: str, key: str = KEY) -> dict[str, Any]:
    """Return the result that asks a caller of 2026-07-28, as it is on the wire."""
    params = {"mode": "form", "message": message_of(questions), "requestedSchema": schema_of(questions)}
    ask = {"method": "elicitation/create", "params": params}
    return {"resultType": "input_required", "inputRequests": {key: ask}, "requestState": state}


def told(text: str) -> dict[str, Any]:
    """Return the result that tells a caller why nothing was called."""
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": True}


@dataclass(frozen=True, slots=True)
class Client:
    """The client of one request, as far as it can be asked.

    Args:
        takes_forms: whether a form reaches it, and its answer comes back.
        ctx: the SDK's context of a request of the handshake's era, which asks in the middle of the call; None for one
            that is asked by results.
    """

    takes_forms: bool
    ctx: Any = None

    async def answer(
        self, questions: Sequence[Question], wait_s: float, *, offers_session: bool = False
    ) -> Mapping[str, Any] | None:
        """Return the answer to a form; None where none comes in so many seconds, or the client can't give one."""
        form = schema_of(questions, offers_session=offers_session)
        try:
            async with asyncio.timeout(wait_s):
                result = await self.ctx.session.elicit_form(message_of(questions), form, self.ctx.request_id)
        except (TimeoutError, MCPError, ValidationError):
            return None
        return {"action": result.action, "content": result.content}


def client_of(request: Request) -> Client:
    """Return the client of a request. One that offers elicitation and names no mode takes forms."""
    if request.client is not None:
        ctx: Any = request.client.ctx
        offered = ctx.session.client_capabilities
        elicitation = None if offered is None or offered.elicitation is None else offered.elicitation.model_dump()
        # Without a stream of its own an answer would never come back: the call would wait for ever.
        return Client(_has_form(elicitation) and bool(ctx.session.can_send_request), ctx)
    meta = request.params.get("_meta")
    capabilities = meta.get(mcp_types.CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, Mapping) else None
    return Client(_has_form(capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None))


def _has_form(elicitation: Any) -> bool:
    is_there = isinstance(elicitation, Mapping)
    return is_there and (elicitation.get("form") is not None or elicitation.get("url") is None)
