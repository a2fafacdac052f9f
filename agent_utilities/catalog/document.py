"""What a ranker may know of a tool: the one place that decides its text and fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SEARCH_HINT = "anthropic/searchHint"
"""The key of a tool's `_meta` under which its author says by what else it is to be found."""
_N_TEXT_CHARACTERS = 20_000
_BORDER = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z](?!s(?![a-z]))[a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|[_\W]+"
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|[\u3002\uff01\uff1f\n]")


_N_SERVER_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class ToolServer:
    """The server that a tool comes from, as far as it helps to find the tool.

    Args:
        name: what people call it where it was configured, or its own name.
        title: what it calls itself; empty where that is not known.
        description: what it is for; empty where that is not known.
    """

    name: str = ""
    title: str = ""
    description: str = ""

    @property
    def text(self) -> str:
        """What is read of it beside its name: its title, and the first sentence of its description.

        The rest speaks of how it is installed, and to whom it is of use, more than of what its tools do.
        """
        return "\n".join(filter(None, (self.title, first_sentence(self.description))))[:_N_SERVER_CHARACTERS]


@dataclass(frozen=True, slots=True)
class ToolDocument:
    """One tool as a ranker reads it; equal documents rank alike.

    Args:
        name: the name that callers see.
        title: for people; empty where there is none, or where it says no more than the name.
        description: what it does.
        parameters: (name, description) of each parameter, in the schema's order. Plain pairs, which the garbage
            collector skips: over 100,000 tools of two parameters it takes 38 ms with pairs and 95 ms with objects.
        tags: its labels.
        server: the server it comes from; empty where there is only one.
        hints: search hints of its author (`anthropic/searchHint`).
        own_name: what its server calls it, where callers see it under another name; else empty.
        server_text: what is known of its server beside the name.
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
        """The name whose words count: its server's, which says no server's name over again, where there is one."""
        return self.own_name or self.name

    def fields(self) -> dict[str, str]:
        """Return the text of each field, whose names are those of the lexical ranker's weights."""
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
        """Return what embeddings are made of: the whole, its first sentence, and the name alone.

        A long description drowns what the tool is for, and a name says it best; their mean vector finds more than
        the vector of any one of them. The keys are those of `ASPECT_WEIGHTS`.
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
    """Return the document of a tool as `tools/list` sends it; whatever isn't text where text belongs is left out.

    Of each text the first 20,000 characters are read.

    Args:
        server: the server it comes from, or its name where no more is known of it.
        tags: its tags, where they are not in `_meta`.
        own_name: what that server calls it; by default what `definition` does.
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
    """Return the words of an identifier: split by case, digits, underscores, dots and other punctuation.

    >>> split_identifier("getHTTPStatus.v2"), split_identifier("listPDFsByURL")
    ('get HTTP Status v 2', 'list PDFs By URL')
    """
    if name.isalpha() and (name.isupper() or name[1:].islower()):
        return name
    return " ".join(filter(None, _BORDER.split(name)))


def first_sentence(text: str) -> str:
    """Return the first sentence or line of a text.

    >>> first_sentence("Reads a file. Large ones are cut.")
    'Reads a file.'
    """
    return _SENTENCE_END.split(text.strip(), maxsplit=1)[0]


def _repeats_name(title: str, name: str) -> bool:
    """Whether a title is the name, or its end, in other letters, and tells no more of its words than the name does.

    FastMCP makes such a title for a tool that has none, and of a humped name one word: `Analyzeevidence`. A gateway
    may have put a server's name before the tool's, and not before the title that it was sent.
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
