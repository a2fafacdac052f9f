"""Messages that can't be read are answered with an error: the SDK drops them, and whoever sent them waits for ever."""

from __future__ import annotations

import logging
import re
from typing import Any

import mcp_types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

from agent_utilities.runtime.process_io import FewLines

logger = logging.getLogger("agent_utilities.wire")

_TEXT = r'"(?:[^"\\]+|\\.)*+"'
_TOKEN = re.compile(rf"({_TEXT}?)(?:\s*:\s*(-?\d++(?![.eE])|{_TEXT}|))?|[][{{}}]", re.DOTALL)
"""A text, with the number or text whose key it is, or a bracket."""


def answer_unreadable(sdk: Any) -> None:
    """Have a server answer what it can't read, on every connection that is a stream of messages: stdio and SSE."""
    run = sdk.run

    async def running(messages: Any, answers: Any, options: Any, raise_exceptions: bool = False) -> None:
        await run(_Readable(messages, answers, sdk), answers, options, raise_exceptions)

    sdk.run = running


class _Readable:
    """A connection's messages that can be read; the others are answered, under their own ids if these can be."""

    def __init__(self, messages: Any, answers: Any, sdk: Any) -> None:
        self._messages, self._answers, self._sdk = messages, answers, sdk
        self._failed: list[SessionMessage] = []
        """Answers of the client's that can't be read, as errors: what it was asked for ends by them."""
        self._few = FewLines()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messages, name)

    def __aiter__(self) -> _Readable:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while not self._failed:
            item: SessionMessage | Exception = await anext(self._messages)
            if isinstance(item, ValidationError):
                await self._refuse(*_read(item))
            elif isinstance(item, SessionMessage) and self._lacks_id(item.message):
                await self._refuse(mcp_types.INVALID_REQUEST, "a request's id is a text or a whole number", [{}])
            else:
                return item
        return self._failed.pop()

    def _lacks_id(self, message: mcp_types.JSONRPCMessage) -> bool:
        """Whether it is a request that counts as a notification, since its id is none of the protocol's."""
        if not isinstance(message, mcp_types.JSONRPCNotification):
            return False
        return message.method == "initialize" or self._sdk.get_request_handler(message.method) is not None

    async def _refuse(self, code: int, what: str, messages: list[dict[str, Any]]) -> None:
        if messages and self._few.takes(what):
            logger.warning("a message can't be read: %s", what)
        for each in messages:
            id_ = each.get("id") if type(each.get("id")) in (int, str) else None
            error = mcp_types.ErrorData(code=code, message=what)
            refusal = SessionMessage(mcp_types.JSONRPCError(jsonrpc="2.0", id=id_, error=error))
            if "method" in each or not each.keys() & {"result", "error"}:
                await self._answers.send(refusal)
            else:
                self._failed.append(refusal)


def _read(error: ValidationError) -> tuple[int, str, list[dict[str, Any]]]:
    """Return an error's code, what is wrong, and what can be read of the messages; none for a blank line."""
    wrong = error.errors(include_url=False, include_context=False)
    if wrong[0]["type"] == "json_invalid":
        line = wrong[0]["input"]
        text = line if isinstance(line, str) else line.decode(errors="replace")
        hint = " (it isn't UTF-8)" if "\0" in text else " (half a surrogate pair)" if "hex escape" in str(error) else ""
        text = text.replace("\0", "")  # UTF-16 has one in each character of ASCII
        return mcp_types.PARSE_ERROR, wrong[0]["msg"] + hint, _outlines(text) if text.strip() else []
    whole = next((each["input"] for each in wrong if len(each["loc"]) == 1 + (each["type"] == "missing")), None)
    if isinstance(whole, list):
        messages = [each for each in whole if isinstance(each, dict)] or [{}]
        return mcp_types.INVALID_REQUEST, "batches are not taken: send each message by itself", messages
    what = ": ".join([*map(str, wrong[0]["loc"][1:]), wrong[0]["msg"]])
    return mcp_types.INVALID_REQUEST, f"no JSON-RPC 2.0: {what}", [whole if isinstance(whole, dict) else {}]


def _outlines(text: str) -> list[dict[str, Any]]:
    """Return the keys of each message of a text that is no JSON, with their values where these are texts or numbers."""
    found, depth, top = list[dict[str, Any]]([{}]), 0, 2 if text.lstrip("\ufeff\ufffd \t").startswith("[") else 1
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            depth += 1
            if depth == top and found[-1]:
                found.append({})
        elif token[0] in "}]":
            depth -= 1
        elif depth <= top and token[2] is not None:
            found[-1][token[1].strip('"')] = _value(token[2])
    return found


def _value(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return None
