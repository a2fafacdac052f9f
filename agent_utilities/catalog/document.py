"""A tool's document: the text and fields of it that rankers read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SEARCH_HINT = "anthropic/searchHint"
"""The key of a tool's `_meta` for the author's search hints."""
_N_TEXT_CHARACTERS = 20_000
_BORDER = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|[_\W]+"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|[\u3002\uff01\uff1f\n]")


_N_SERVER_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class ToolServer:
    """What rankers read of a tool's server: its name in the configuration, or its own, and what it says of itself."""

    name: str = ""
    title: str = ""
    description: str = ""

    @property
    def text(self) -> str:
        """Its title and the first sentence of its description: the rest says little of what its tools do."""
        return "\n".join(filter(None, (self.title, first_sentence(self.description))))[:_N_SERVER_CHARACTERS]


@dataclass(frozen=True, slots=True)
class ToolDocument:
    """One tool as a ranker reads it; equal documents rank alike.

    Args:
        name: the name that callers see.
        title: for people; empty where there is none, or where it only repeats the name.
        parameters: (name, description) of each parameter, in the schema's order. Plain pairs, which the garbage
            collector skips: over 100,000 tools of two parameters it takes 38 ms with pairs and 95 ms with objects.
        server: the name of its server; empty where there is only one.
        hints: search hints of its author (`anthropic/searchHint`).
        own_name: its name on its server, where callers see another; else empty.
        server_text: `ToolServer.text` of its server.
    """

    name: str
    title: str = ""
    description: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    server: str = ""
    hints: tuple[str, ...] = ()
    own_name: str = ""
    server_text: str = ""

    @property
    def read_name(self) -> str:
        """The name whose words count: the one on its server, which has no server's name in it."""
        return self.own_name or self.name

    def fields(self) -> dict[str, str]:
        """Return the text of each field; the keys are those of `FIELD_WEIGHTS`."""
        return {
            "name": self.read_name,
            "title": self.title,
            "description": self.description,
            "hints": "\n".join(self.hints),
            "parameters": " ".join(name for name, _ in self.parameters),
            "parameter_descriptions": "\n".join(text for _, text in self.parameters)[:_N_TEXT_CHARACTERS],
            "tags": " ".join(self.tags),
            "server": self.server,
            "server_text": self.server_text,
        }

    def aspects(self) -> dict[str, str]:
        """Return the texts to embed: the whole, its first sentence, and the name alone; keyed as `ASPECT_WEIGHTS`.

        A long description hides what the tool is for, and a name says it best: the mean of their vectors retrieves
        more than any one of them.
        """
        name = " ".join(part for part in (split_identifier(self.read_name), self.title) if part)
        text = "\n".join(part for part in (self.description, *self.hints) if part)
        return {
            "whole": f"{split_identifier(self.server)} {name}: {text}".strip(),
            "first_sentence": f"{name}: {first_sentence(text)}".strip(),
            "name": name,
        }


def document(
    definition: Mapping[str, Any], server: str | ToolServer = "", tags: Iterable[str] = (), own_name: str = ""
) -> ToolDocument:
    """Return the document of a tool as `tools/list` sends it.

    What isn't text where text belongs is left out; of each text the first 20,000 characters are read.

    Args:
        server: its server, or the name where no more is known.
        tags: further tags, beside those in `_meta`.
        own_name: its name on that server; that of `definition` where empty.
    """
    origin = ToolServer(server) if isinstance(server, str) else server
    meta = _mapping(definition.get("_meta") or definition.get("meta"))
    host = _mapping(meta.get("fastmcp")) or _mapping(meta.get("_fastmcp"))
    properties = _mapping(_mapping(definition.get("inputSchema")).get("properties"))
    annotated_title = _text(_mapping(definition.get("annotations")).get("title"))
    name, title = _text(definition.get("name")), _text(definition.get("title")) or annotated_title
    return ToolDocument(
        name=name,
        title="" if _repeats_name(title, own_name or name) else title,
        description=_text(definition.get("description")),
        parameters=tuple((_text(key), _text(_mapping(each).get("description"))) for key, each in properties.items()),
        tags=tuple(sorted({*_texts(host.get("tags")), *tags})),
        server=origin.name,
        hints=_texts(meta.get(SEARCH_HINT)),
        own_name="" if own_name == name else own_name,
        server_text=origin.text,
    )


def split_identifier(name: str) -> str:
    """Split an identifier into words by case, digits, underscores, dots and other punctuation.

    >>> split_identifier("getHTTPStatus.v2"), split_identifier("listPDFsByURL")
    ('get HTTP Status v 2', 'list PDFs By URL')
    """
    if name.isalpha() and (name.isupper() or name[1:].islower()):
        return name
    return " ".join(filter(None, _BORDER.split(name)))


def first_sentence(text: str) -> str:
    """Return the first sentence or line of a text."""
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]


def _repeats_name(title: str, name: str) -> bool:
    """Whether a title is the name, or its end, spelt otherwise, and not split into more words.

    FastMCP makes such a title for a tool without one, and one word of a camel-case name: `Analyzeevidence`. A gateway
    may have prefixed the name, and not the title.
    """
    name_words, title_words = split_identifier(name).split(), split_identifier(title).split()
    written = "".join(title_words).casefold()
    return any(
        "".join(name_words[start:]).casefold() == written and len(title_words) <= len(name_words) - start
        for start in range(len(name_words))
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value[:_N_TEXT_CHARACTERS] if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    values = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    return tuple(text for text in map(_text, values) if text)
