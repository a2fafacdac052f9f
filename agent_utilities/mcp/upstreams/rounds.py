"""Results that ask for input first: handed on to callers who know them, answered in rounds for those who don't."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import mcp_types
from mcp.shared.exceptions import MCPError

from agent_utilities.mcp.upstreams.capabilities import Question, needed, offers
from agent_utilities.upstream.connections.calls import present_call
from agent_utilities.upstream.relay import Relay

N_ROUNDS = 32
"""How often an upstream may ask in one call."""
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.25

Again = Callable[[mcp_types.InputResponses | None, str | None], Awaitable[Any]]
"""Sends a request once more, with the answers to what was asked and the state that came with it."""


def check_offered(asks: mcp_types.InputRequiredResult, capabilities: mcp_types.ClientCapabilities | None) -> None:
    """Refuse to ask a client what it doesn't offer, as its upstream would have, had it known.

    Raises:
        MCPError: -32021, with the capabilities that would do.
    """
    for question in (asks.input_requests or {}).values():
        if not offers(capabilities, question):
            required = needed(question).model_dump(by_alias=True, mode="json", exclude_none=True)
            raise MCPError(
                mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY,
                f"the upstream asks for {question.method}, and this client does not offer it",
                {"requiredCapabilities": required},
            )


async def answer_in_rounds(result: Any, relay: Relay, again: Again) -> Any:
    """Ask the caller whatever an upstream asks for, and send the request again, until it has a result.

    Args:
        result: what the upstream gave.
        relay: asks the caller.
        again: sends the request with the answers.

    Raises:
        MCPError: the caller's client refused, or the upstream asked too often.
    """
    pause_s = _FIRST_PAUSE_S
    for _ in range(N_ROUNDS):
        if not isinstance(result, mcp_types.InputRequiredResult):
            return result
        if result.input_requests:
            pause_s = _FIRST_PAUSE_S
            responses = await _answers(result.input_requests, relay)
        else:
            await asyncio.sleep(pause_s)
            pause_s, responses = min(2 * pause_s, _LONGEST_PAUSE_S), None
        result = await again(responses, result.request_state)
    raise MCPError(mcp_types.INTERNAL_ERROR, f"the upstream asked for input more than {N_ROUNDS} times in one call")


async def _answers(questions: mcp_types.InputRequests, relay: Relay) -> mcp_types.InputResponses:
    call = present_call()
    with call.asking() if call is not None else nullcontext():
        given = await asyncio.gather(*(_ask(question, relay) for question in questions.values()))
    for answer in given:
        if isinstance(answer, mcp_types.ErrorData):
            raise MCPError.from_error_data(answer)
    return dict(zip(questions, given, strict=True))


async def _ask(question: Question, relay: Relay) -> Any:
    match question:
        case mcp_types.CreateMessageRequest(params=params):
            return await relay.sample(params)
        case mcp_types.ElicitRequest(params=params):
            return await relay.elicit(params)
        case _:
            return await relay.roots()
