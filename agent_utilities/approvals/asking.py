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
ANSWER = "answer"
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
    answers = dict(responses) if isinstance(responses, Mapping) else {}
    own = answers.pop(KEY, None)
    others = {key: value for key, value in params.items() if key not in ("requestState", "inputResponses")}
    others |= {"requestState": inner} if inner is not None else {}
    others |= {"inputResponses": answers} if answers else {}
    return Brought(kind, ticket, own if isinstance(own, Mapping) else None), others


# -- what is read ------------------------------------------------------------------------------------------------------


def message_of(questions: Sequence[Question]) -> str:
    """Return what a person reads before they answer; nothing in it comes from the tool but its name."""
    room = max(_LEAST_SHOWN, _SHOWN // len(questions))
    parts = [
        f"{n}. {_about(each, room)}" if len(questions) > 1 else _about(each, room) for n, each in _numbered(questions)
    ]
    head = "May this tool be called?" if len(questions) == 1 else f"May these {len(questions)} tools be called?"
    return "\n\n".join([head, *parts])


def _about(question: Question, room: int) -> str:
    return f"{question.tool} of {question.server}, with (sha256 {question.digest})\n{fitted(question.shown, room)}"


def _numbered(questions: Sequence[Question]) -> list[tuple[int, Question]]:
    return list(enumerate(questions, 1))


def schema_of(questions: Sequence[Question], *, offers_session: bool = False) -> dict[str, Any]:
    """Return the form: one answer for all, or one for each where they are few."""
    values = [NO, YES, YES_FOR_SESSION] if offers_session else [NO, YES]
    if 1 < len(questions) <= _N_FIELDS:
        titles = {f"{ANSWER}{n}": f"{n}. {each.tool}" for n, each in _numbered(questions)}
    else:
        titles = {ANSWER: "May it be called?" if len(questions) == 1 else f"May all {len(questions)} be called?"}
    fields = {name: {"type": "string", "title": title, "enum": values} for name, title in titles.items()}
    return {"type": "object", "properties": fields, "required": list(fields)}


def answers_of(
    questions: Sequence[Question], answer: Mapping[str, Any] | None, *, offers_session: bool = False
) -> list[str]:
    """Return the answer to each question: whatever is no yes that was offered is a no."""
    content = answer.get("content") if isinstance(answer, Mapping) and answer.get("action") == "accept" else None
    content = content if isinstance(content, Mapping) else {}
    names = [f"{ANSWER}{n}" for n, _ in _numbered(questions)] if 1 < len(questions) <= _N_FIELDS else [ANSWER]
    offered = (YES, YES_FOR_SESSION) if offers_session else (YES,)
    said = [each if (each := content.get(name)) in offered else NO for name in names]
    return said if len(said) == len(questions) else said * len(questions)


def input_required(questions: Sequence[Question], state: str, key: str = KEY) -> dict[str, Any]:
    """Return the result that asks a caller of 2026-07-28, as it is on the wire."""
    params = {"mode": "form", "message": message_of(questions), "requestedSchema": schema_of(questions)}
    ask = {"method": "elicitation/create", "params": params}
    return {"resultType": "input_required", "inputRequests": {key: ask}, "requestState": state}


def told(text: str) -> dict[str, Any]:
    """Return the result that tells a caller why nothing was called."""
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": True}


# -- whom it reaches ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Client:
    """The client of one request, as far as it can be asked.

    Args:
        is_modern: whether it is asked by results; else in the middle of the call.
        takes_forms: whether a form reaches it.
        ctx: the SDK's context of a request of the handshake's era; None for others.
    """

    is_modern: bool
    takes_forms: bool
    ctx: Any = None

    async def answer(self, questions: Sequence[Question], wait_s: float, *, offers_session: bool) -> Any:
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
        ctx: Any = request.client._ctx  # noqa: SLF001 - of a class of ours, which asks nobody itself
        offered = ctx.session.client_capabilities
        elicitation = None if offered is None or offered.elicitation is None else offered.elicitation.model_dump()
        # Without a stream of its own an answer would never come back: the call would wait for ever.
        return Client(False, _has_form(elicitation) and bool(ctx.session.can_send_request), ctx)
    meta = request.params.get("_meta")
    capabilities = meta.get(mcp_types.CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, Mapping) else None
    return Client(True, _has_form(capabilities.get("elicitation") if isinstance(capabilities, Mapping) else None))


def _has_form(elicitation: Any) -> bool:
    if not isinstance(elicitation, Mapping):
        return False
    return elicitation.get("form") is not None or elicitation.get("url") is None
