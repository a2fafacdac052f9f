"""Shortens results that are over their budget, keeps them whole, and reads on: for servers and for `ToolRouter`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from agent_utilities.catalog.context import n_tokens
from agent_utilities.errors import InputError
from agent_utilities.policy.entry_names import READ_RESULT
from agent_utilities.results.content import Whole, counted, media_tokens, whole_of, written
from agent_utilities.results.kept import Kept, Owner
from agent_utilities.results.outline import outline_of
from agent_utilities.results.reading import read
from agent_utilities.results.select import select
from agent_utilities.results.shape import Shown, shortened
from agent_utilities.runtime.waiting import in_daemon_thread

META_KEY = "agent-utilities/result"
"""The key of `_meta`: in a call what to select of its result, in a result what was left out of it."""
SCHEME = "result://"
"""The scheme of the resources that kept results are."""
LEAST_OF_ERROR = 2_000
"""Tokens to which an error is never shortened further."""
_UNKNOWN_HINT = "call the tool again: a result is kept for half an hour, for its caller"
_READ_AT_ONCE = 4
"""Reads under way at one time: the JSON of 16 MiB takes ten times that while something is selected from it."""
_LONGEST_ERROR = 200
"""Characters of why a `select` was not applied, in the line that says so."""
_MOST_PROJECTED = 500_000
"""Tokens of a result up to which it is tried what else a projection of it takes."""
_FILTER = re.compile(r"\[(?:\?[^\[\]]*|[-\d:]*|\*)\]")
_FIELDS_ALONE = re.compile(r"(?:\[\]\.)?[A-Za-z_{][\w.\[\]{}:, ]{0,299}")
_SPACE = re.compile(r'"(?:[^"\\]|\\.)*"|[ \t\r\n]+')


@dataclass(frozen=True, slots=True)
class Wanted:
    """How one result is to be shortened.

    Args:
        tokens: the most that it may take.
        select: a JMESPath expression, for what is given in place of the whole; empty for none.
        compact: whether white space between the parts of JSON goes.
        is_structured: whether `structuredContent` stays, since the tool was listed with an output schema.
        has_links: whether the client reads links to resources.
        reader: the name of the tool by which the rest is read; empty where the caller may not, so that nothing is kept.
        through: the tool through which that is called, where it is not listed; empty where it is.
        made_of: further tools whose results are in it: who may not use each may not read on.
    """

    tokens: int
    select: str = ""
    compact: bool = False
    is_structured: bool = False
    has_links: bool = True
    reader: str = READ_RESULT
    through: str = ""
    made_of: Sequence[str] = ()


class ReadOn(NamedTuple):
    """An answer of `read_result`, the tool whose result it is of, and what else its projection takes.

    Args:
        projection: what was selected, as an expression of field names alone; empty where it is not known.
        tokens: of the whole result.
        selected: the tokens of all that the projection selects; 0 where it is empty.
    """

    shown: Shown
    tool: str
    projection: str
    tokens: int
    selected: int


class BoundedResults:
    """Shortens results and keeps them whole; what takes long is done in a thread.

    Ours and theirs can be told apart: the first block is ours alone, and every mark in what follows has the handle,
    128 random bits that no server could know when it wrote its text.
    """

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        # A router may outlive an event loop, to which a semaphore belongs.
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def fitted(
        self, result: Mapping[str, Any], wanted: Wanted, owner: Owner, tool: str
    ) -> tuple[dict[str, Any], Mapping[str, Any]]:
        """Return a result within its budget, and what its `_meta` says of it; the same result where nothing changed."""
        if wanted.compact:
            result = await in_daemon_thread(partial(_compacted, result))
        tokens = wanted.tokens
        if result.get("isError"):  # it is what went wrong, and no part of that is asked for
            tokens, wanted = max(tokens, LEAST_OF_ERROR), replace(wanted, select="")
        n_whole = await counted(result, tokens)
        if n_whole <= tokens and not wanted.select:
            return dict(result), {}
        whole = await in_daemon_thread(partial(whole_of, result))
        about: dict[str, Any]
        error = ""
        if wanted.select and await in_daemon_thread(lambda: whole.outline) is None:
            error, wanted = "it takes JSON, and this is text", replace(wanted, select="")
            if n_whole <= tokens:
                about = {"tokens": n_whole, "shown": n_whole, "error": error}
                return _with_meta(result, about), about
        handle = ""
        if wanted.reader:
            made_of = "\n".join((tool, *wanted.made_of))
            handle = await self.kept.put(owner, made_of, await in_daemon_thread(whole.to_bytes)) or ""
        media, n_media = _fitting(whole.media, tokens // 2 if whole.text else tokens)
        by = f"; {wanted.reader} is called through {wanted.through}" if wanted.through else ""
        shown, error = await _shown(whole, wanted, tokens - n_media - n_tokens(by), handle, error)
        texts = [shown.blocks[0] + by, *shown.blocks[1:]]
        content: list[Mapping[str, Any]] = [{"type": "text", "text": text} for text in texts]
        content += media
        if handle and wanted.has_links:
            content += _links(whole, handle, tool, len(media))
        about = {"tokens": whole.tokens, "shown": shown.n_tokens + n_media}
        about |= {"handle": handle} if handle else {"kept": False}
        about |= {"select": wanted.select} if wanted.select and not error else {}
        about |= {"error": error} if error else {}
        left = {key: value for key, value in result.items() if key != "structuredContent" or wanted.is_structured}
        return _with_meta({**left, "content": content}, about), about

    async def read(
        self, arguments: Mapping[str, Any], owner: Owner, tokens: int, may_use: Callable[[str], bool], reader: str
    ) -> ReadOn:
        """Answer a call of `read_result`.

        Args:
            may_use: whether the caller may still use a tool, by name: another's result reads as one that never was.

        Raises:
            InputError: there is no such result for this caller, or the other arguments can't be meant.
        """
        turns = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_READ_AT_ONCE))
        async with turns:
            return await self._read(dict(arguments), owner, tokens, may_use, reader)

    async def _read(
        self, own: dict[str, Any], owner: Owner, tokens: int, may_use: Callable[[str], bool], reader: str
    ) -> ReadOn:
        handle = own.pop("result", None)
        if (found := await self._whole(str(handle), owner, may_use)) is None:
            raise InputError("no such result", handle, f"{READ_RESULT}: result", _UNKNOWN_HINT)
        whole, tool = found
        shown = await in_daemon_thread(partial(read, whole, own, tokens, str(handle), reader=reader))
        projection = projection_of(str(own.get("select") or "")) if whole.tokens < _MOST_PROJECTED else ""
        selected = await in_daemon_thread(partial(_n_selected, whole, projection)) if projection else 0
        return ReadOn(shown, tool, projection if selected else "", whole.tokens, selected)

    async def _whole(self, handle: str, owner: Owner, may_use: Callable[[str], bool]) -> tuple[Whole, str] | None:
        """Return a kept result and its tool; None where there is none for this caller."""
        entry = await self.kept.get(handle, owner)
        if entry is None or not all(map(may_use, tools := entry.tool.split("\n"))):
            return None
        return await in_daemon_thread(partial(Whole.from_bytes, entry.content)), tools[0]

    async def resource(
        self, uri: str, owner: Owner, tokens: int, may_use: Callable[[str], bool]
    ) -> list[dict[str, Any]] | None:
        """Return the contents of `result://HANDLE`, or of one of its images, sounds or files, `result://HANDLE/N`."""
        handle, _, number = uri.removeprefix(SCHEME).partition("/")
        if (found := await self._whole(handle, owner, may_use)) is None:
            return None
        whole, _ = found
        if number:
            if not number.isdecimal() or int(number[:4]) >= len(whole.media):
                return None
            return [_blob(uri, whole.media[int(number[:4])])]
        text = whole.text
        if n_tokens(text) > tokens:
            shown = await in_daemon_thread(partial(shortened, whole, tokens, handle, reader=READ_RESULT))
            text = "\n".join(shown.blocks)
        return [{"uri": uri, "mimeType": _mime_type(whole), "text": text}]


async def _shown(whole: Whole, wanted: Wanted, tokens: int, handle: str, error: str) -> tuple[Shown, str]:
    """Return what is shown of a result, and why its `select` was not applied; empty where it was, or there is none."""
    if wanted.select:
        try:
            arguments = {"select": wanted.select}
            return await in_daemon_thread(partial(read, whole, arguments, tokens, handle, reader=wanted.reader)), error
        except InputError as refused:
            error = str(refused)
    said = f"; select was not applied: {error[:_LONGEST_ERROR]}" if error else ""
    shown = await in_daemon_thread(partial(shortened, whole, tokens, handle, reader=wanted.reader, said=said))
    return shown, error


def _with_meta(result: Mapping[str, Any], about: Mapping[str, Any]) -> dict[str, Any]:
    return {**result, "_meta": {**(result.get("_meta") or {}), META_KEY: about}}


def projection_of(expression: str) -> str:
    """Return the part of an expression that names fields alone; empty where it has more than that and filters.

    >>> projection_of("issues[?state=='open'].{number: number, title: title}")
    'issues[].{number: number, title: title}'
    """
    fields = _FILTER.sub("[]", expression)
    return fields if _FIELDS_ALONE.fullmatch(fields) else ""


def _n_selected(whole: Whole, projection: str) -> int:
    """Return the tokens that a projection takes of a whole; 0 where it selects nothing."""
    try:
        selected = select(projection, whole.value)
    except InputError:
        return 0
    return n_tokens(written(selected)) if selected else 0


def _compacted(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result without white space between the parts of texts that are JSON; else the same."""
    blocks = result.get("content")
    if not isinstance(blocks, list):
        return result
    shorter = [{**each, "text": _without_space(each["text"])} if _is_json(each) else each for each in blocks]
    return {**result, "content": shorter}


def _is_json(block: Any) -> bool:
    text = block.get("text") if isinstance(block, Mapping) else None
    return isinstance(text, str) and outline_of(text, len(text) - len(text.lstrip())) is not None


def _without_space(text: str) -> str:
    return _SPACE.sub(lambda match: match[0] if match[0][0] == '"' else "", text)


def _fitting(media: Sequence[Mapping[str, Any]], tokens: int) -> tuple[list[Mapping[str, Any]], int]:
    """Return the first images, sounds and files that fit, and how many tokens they take."""
    n_taken = 0
    for i, block in enumerate(media):
        n_taken += (cost := media_tokens(block))
        if n_taken > tokens:
            return list(media[:i]), n_taken - cost
    return list(media), n_taken


def _links(whole: Whole, handle: str, tool: str, n_shown: int) -> list[dict[str, Any]]:
    """Return the links to a kept result, and to what of its media is not shown."""
    size = len(whole.text.encode("utf-8", "surrogatepass"))
    links = [_link(f"{SCHEME}{handle}", f"result of {tool}", _mime_type(whole), size)] if whole.text else []
    for i in range(n_shown, len(whole.media)):
        blob = _blob("", whole.media[i])
        kind = whole.media[i].get("type")
        links.append(
            _link(f"{SCHEME}{handle}/{i}", f"{kind} {i} of {tool}", blob["mimeType"], len(blob["blob"]) * 3 // 4)
        )
    return links


def _link(uri: str, name: str, mime_type: str, size: int) -> dict[str, Any]:
    return {"type": "resource_link", "uri": uri, "name": name, "mimeType": mime_type, "size": size}


def _blob(uri: str, block: Mapping[str, Any]) -> dict[str, Any]:
    """Return an image, a sound or a file as the content of a resource."""
    inner = block.get("resource") if isinstance(block.get("resource"), Mapping) else block
    data = inner.get("blob", inner.get("data", "")) if isinstance(inner, Mapping) else ""
    mime_type = inner.get("mimeType") if isinstance(inner, Mapping) else None
    return {"uri": uri, "mimeType": mime_type or "application/octet-stream", "blob": data}


def _mime_type(whole: Whole) -> str:
    return "text/plain" if whole.outline is None else "application/json"
