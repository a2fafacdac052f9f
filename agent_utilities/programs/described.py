"""What a model reads of `run_program`, what it gives it, and what results become for a program and for a prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Any

from pydantic_core import to_json

from agent_utilities.errors import InputError
from agent_utilities.policy.entry_names import RUN_PROGRAM
from agent_utilities.programs.program import LONGEST_ERROR, CallError, Ended, Limits, ledger_of
from agent_utilities.programs.stubs import MODULES
from agent_utilities.programs.unsupported import MAX_CODE

_MOST = 2_000
"""Characters of the description: some hosts show no more."""
_FENCED = re.compile(r"\s*```(?:python|py)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL)
RUN_PROGRAM_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "description": "Python; its last expression is the result"},
        "resume": {"type": "string", "description": "Goes on with a program that waited for approval"},
    },
}
_TEXT = (
    "Run a Python program that calls tools, for loops, joins, filters and many calls: what tools answer goes into the"
    " program, and you get what it prints and its last expression alone. Tools are async functions with keyword"
    ' arguments: `r = await list_issues(repo="a/b")`, side by side'
    " `await asyncio.gather(*[get(id=i) for i in ids])`, without return_exceptions. Characters of a name that Python"
    " does not take are `_`. A call returns the tool's structured result, else its text; one that fails raises"
    " RuntimeError. Not all of Python is there: no classes with bases, yield, del, async with, async for, create_task;"
    " asyncio has gather, sleep and run. Modules: {modules}. No files, no network. What is wrong with it is told"
    " before any call is made. At most {calls} calls, {at_once} at once, {seconds:g} s, {mib} MiB of results."
)


_ASKS = " What writes is called after a person's yes: gather such calls, and all are asked for at once."


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of `run_program`: a program, or the handle of one that waits, or both."""

    code: str = ""
    resume: str = ""


def described(signatures: Sequence[str], limits: Limits, *, asks: bool = False) -> str:
    """Return the description: with the signature of each tool where all fit, a line each.

    Args:
        asks: whether calls that write wait for a person's yes.
    """
    text = _TEXT.format(
        modules=", ".join(sorted(MODULES - {"asyncio", "sys", "os", "pathlib", "typing"})),
        calls=limits.calls,
        at_once=limits.calls_at_once,
        seconds=limits.wall_s,
        mib=limits.data_bytes >> 20,
    )
    text += _ASKS if asks else ""
    whole = "\n".join([text, "Tools (? may be left out, or be missing):", *signatures])
    return whole if signatures and len(whole) <= _MOST else text


def wanted_of(arguments: Mapping[str, Any]) -> Wanted:
    """Return the arguments of a call.

    Raises:
        InputError: there is no program in them, or it is too long.
    """
    source = f"{RUN_PROGRAM}: "
    for key, value in arguments.items():
        if key not in RUN_PROGRAM_SCHEMA["properties"]:
            raise InputError("unknown argument", key, source + key, "it takes code, or resume")
        if not isinstance(value, str):
            raise InputError("no text", value, source + key, "write the program as one text")
    wanted = Wanted(_plain(arguments.get("code", "")), arguments.get("resume", ""))
    if not wanted.code.strip() and not wanted.resume:
        raise InputError("no program", wanted.code, f"{source}code", "write Python, such as `await list_issues()`")
    if len(wanted.code) > MAX_CODE:
        raise InputError(f"more than {MAX_CODE:,} characters", len(wanted.code), f"{source}code", "write less of it")
    return wanted


def _plain(code: str) -> str:
    """Return a program without what models put around one: a fence, an indentation of it all, a byte-order mark."""
    if (fenced := _FENCED.fullmatch(code)) is not None:
        code = fenced[1]
    return dedent(code.removeprefix("\ufeff"))


def value_of(result: Mapping[str, Any], *, is_wrapped: bool) -> tuple[Any, int]:
    """Return what a program gets of a tool's result, and its bytes as JSON.

    Args:
        result: as it is sent.
        is_wrapped: whether the schema says that the value stands under the key `result`.

    Raises:
        CallError: the tool failed, or what it answered is no result.
    """
    if (kind := result.get("resultType", "complete")) != "complete":
        what = "asks its caller something" if kind == "input_required" else "answers with a background task"
        raise CallError(f"it {what}, which no program can take: call it by itself")
    text = "\n".join(_text_of(block) for block in result.get("content") or () if isinstance(block, Mapping))
    if result.get("isError"):
        raise CallError(text[:LONGEST_ERROR] or "it failed, and says nothing")
    value = result.get("structuredContent")
    if value is None:
        value = text if result.get("content") else None
    elif is_wrapped and isinstance(value, Mapping) and set(value) == {"result"}:
        value = value["result"]
    try:
        return value, len(to_json(value))
    except ValueError:  # a lone surrogate, which the interpreter does not take
        pass
    try:
        written = json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")
        return json.loads(written), len(written)
    except (ValueError, RecursionError) as error:
        raise CallError(f"its result can't be given to a program: {error}") from None


def _text_of(block: Mapping[str, Any]) -> str:
    inner = block.get("resource", block)
    text = inner.get("text") if isinstance(inner, Mapping) else None
    if isinstance(text, str):
        return text
    return f"[{block.get('type')} {block.get('mimeType') or block.get('uri') or ''}]".replace(" ]", "]")


def texts_of(ended: Ended) -> list[str]:
    """Return what a model gets of a program: what it printed, its value, and which calls it did not wait for."""
    texts = [ended.printed] if ended.printed else []
    texts += [ended.value] if ended.value is not None else []
    if unknown := ledger_of(ended.made)["unknown"]:
        texts.append(f"not waited for, and made or not: {json.dumps(unknown, ensure_ascii=False)}")
    return texts or ["it ended, and printed nothing; its last line is no expression"]
