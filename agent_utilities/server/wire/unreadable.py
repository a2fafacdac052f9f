"""Answers messages that can't be read with an error: the SDK drops them, and their senders would wait for ever."""

from __future__ import annotations

import logging
import re
import time
from contextlib import suppress
from typing import Any

import mcp_types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

logger = logging.getLogger("agent_utilities.wire")

_N_LOGGED, _MINUTE_S = 16, 60.0
_TEXT = r'"(?:[^"\\]+|\\.)*+"'
_TOKEN = re.compile(rf"({_TEXT}?)(?:\s*:\s*(-?\d++(?![.eE])|{_TEXT}|))?|[][{{}}]", re.DOTALL)
"""A text, with the number or text whose key it is, or a bracket."""


def answer_unreadable(sdk: Any) -> None:
    """Have a server answer what it can't read of a stream of messages."""
    run = sdk.run

    async def running(messages: Any, answers: Any, options: Any, raise_exceptions: bool = False) -> None:
        await run(_Readable(messages, answers, sdk), answers, options, raise_exceptions)

    sdk.run = running


class _Readable:
    """A connection's messages that can be read; the others are answered, under their own ids if these can be."""

    def __init__(self, messages: Any, answers: Any, sdk: Any) -> None:
        self._messages, self._answers, self._sdk = messages, answers, sdk
        self._since_s, self._n_logged = 0.0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messages, name)

    def __aiter__(self) -> _Readable:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            item: SessionMessage | Exception = await anext(self._messages)
            if isinstance(item, ValidationError):
                code, what, messages = _read(item)
            elif isinstance(item, SessionMessage) and self._lacks_id(item.message):
                code, what, messages = mcp_types.INVALID_REQUEST, "a request's id is a text or a whole number", [{}]
            else:
                return item
            for each in messages:
                self._log(what)
                id_ = each.get("id") if type(each.get("id")) in (int, str) else None
                error = mcp_types.ErrorData(code=code, message=what)
                refusal = SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))
                if "method" not in each and each.keys() & {"result", "error"}:
                    return refusal  # a response of the client's: the request that it answers ends by it
                await self._answers.send(refusal)

    def _lacks_id(self, message: mcp_types.JSONRPCMessage) -> bool:
        """Whether it is a request that counts as a notification, since its id is none of the protocol's."""
        method = message.method if isinstance(message, mcp_types.JSONRPCNotification) else None
        return method is not None and (method == "initialize" or self._sdk.get_request_handler(method) is not None)

    def _log(self, what: str) -> None:
        if (now_s := time.monotonic()) - self._since_s > _MINUTE_S:
            self._since_s, self._n_logged = now_s, 0
        self._n_logged += 1
        if self._n_logged <= _N_LOGGED:
            logger.warning("a message can't be read: %s", what)


def _read(error: ValidationError) -> tuple[int, str, list[dict[str, Any]]]:
    """Return an error's code, what is wrong, and what can be read of the messages; none for a blank line."""
    wrong = error.errors(include_url=False, include_context=False)
    whole, what = wrong[0]["input"], wrong[0]["msg"]
    if wrong[0]["type"] == "json_invalid":
        text = whole if isinstance(whole, str) else whole.decode(errors="replace")
        what += " (it isn't UTF-8)" if "\0" in text else " (half a surrogate pair)" if "hex escape" in what else ""
        text = text.replace("\0", "")  # UTF-16 has one in each character of ASCII
        return mcp_types.PARSE_ERROR, what, _outlines(text) if text.strip() else []
    whole = next((each["input"] for each in wrong if len(each["loc"]) == 1 + (each["type"] == "missing")), None)
    messages: list[dict[str, Any]] = [
        each for each in (whole if isinstance(whole, list) else [whole]) if isinstance(each, dict)
    ]
    what = "batches are not taken" if isinstance(whole, list) else ": ".join([*map(str, wrong[0]["loc"][1:]), what])
    return mcp_types.INVALID_REQUEST, f"no JSON-RPC 2.0: {what}", messages or [{}]


def _outlines(text: str) -> list[dict[str, Any]]:
    """Return the keys of each message of a text that is no JSON, with their values where these are texts or numbers."""
    outlines, depth, top = list[dict[str, Any]]([{}]), 0, 2 if text.lstrip("\ufeff\ufffd \t").startswith("[") else 1
    for token in _TOKEN.finditer(text):
        if token[1] is None:
            depth += 1 if token[0] in "{[" else -1
            if token[0] == "{" and depth == top and outlines[-1]:
                outlines.append({})
        elif depth <= top and token[2] is not None:
            outlines[-1][token[1].strip('"')] = None
            with suppress(ValueError):
                outlines[-1][token[1].strip('"')] = from_json(token[2])
    return outlines
