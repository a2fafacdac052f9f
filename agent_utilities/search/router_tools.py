"""The tools that a router chooses from: definitions, which of them are listed, and what that costs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import takewhile
from typing import Any, Literal

from agent_utilities.catalog.context import (
    ACTIVE,
    ATTACHED,
    DEFERRED,
    ENTRY_TOOLS,
    LISTED,
    PINS,
    ContextReport,
    SectionTool,
    context_report,
)
from agent_utilities.catalog.document import ToolDocument, document
from agent_utilities.catalog.model import Catalog, Entry, entry
from agent_utilities.errors import AgentUtilitiesError, InputError, SelectionError, SettingsError
from agent_utilities.policy.curation import NO_PREFERENCES, Preferences, preferences_of
from agent_utilities.policy.decision import Permitted, decide
from agent_utilities.policy.deferral import fitting, is_frozen, is_new_turn
from agent_utilities.policy.entry_names import entry_names
from agent_utilities.query.ranking.base import Index
from agent_utilities.search.entry_tools import DeferredTool, call_definition, deferred_text, search_definition
from agent_utilities.search.search_result import SearchResult, names_of_server
from agent_utilities.selection.active import Active
from agent_utilities.selection.channels import field_of
from agent_utilities.selection.merge import effective
from agent_utilities.selection.model import NO_LIMIT, NOTHING, Selection, Setting, Slot, fold
from agent_utilities.selection.parse import read_value

Format = Literal["mcp", "openai", "anthropic"]
_LONGEST = 64
_LEGAL = re.compile(rf"[a-zA-Z0-9_-]{{1,{_LONGEST}}}")
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def legal_names(names: Iterable[str], taken: Container[str] = ()) -> dict[str, str]:
    """Return, by the name of each tool, one of at most 64 letters, digits, `_` and `-`, no two of them alike.

    A name that is legal stays as it is; any other one ends in digits of a hash of the whole of it, so that what a
    model calls a tool never depends on which other tools there are, nor changes when one comes. None of them may have
    a name that is `taken`, though it be its own.
    """
    names = tuple(names)
    legal = {name: name for name in names if _LEGAL.fullmatch(name) and name not in taken}
    used = set(legal)
    for name in names:
        if name not in legal:
            digits = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            for n_digits in (8, 16, 32):  # more of them where somebody chose names to collide
                legal[name] = f"{_ILLEGAL.sub('_', name)[: _LONGEST - n_digits - 1]}_{digits[:n_digits]}"
                if legal[name] not in used:
                    break
            used.add(legal[name])
    return legal


def formatted(
    definitions: Iterable[Mapping[str, Any]], legal: Mapping[str, str], host_tools: Container[str], wanted: Format
) -> list[dict[str, Any]]:
    """Return tools as a provider takes them; as `mcp` under their own names, but for those that the host has."""

    def for_models(definition: Mapping[str, Any], schema_key: str) -> dict[str, Any]:
        return {
            "name": legal.get(definition["name"], definition["name"]),
            "description": definition.get("description") or definition.get("title") or "",
            schema_key: {"type": "object", "properties": {}, **definition["inputSchema"]},
        }

    match wanted:
        case "mcp":
            return [
                {**each, "name": legal[each["name"]]} if each["name"] in host_tools else dict(each)
                for each in definitions
            ]
        case "openai":
            return [{"type": "function", "function": for_models(each, "parameters")} for each in definitions]
        case "anthropic":
            return [for_models(each, "input_schema") for each in definitions]
    raise InputError("no such format", wanted, "ToolRouter.tools: format", "give mcp, openai or anthropic")


def result_text(result: Any) -> str:
    """Return what `handle` or `call` returned as text for a model: of a search JSON, of a tool its texts.

    A block that is no text is named by its type.
    """
    if isinstance(result, SearchResult):
        return result.text
    if isinstance(result, str):
        return result
    content = getattr(result, "content", None)
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "\n".join(_block_text(block) for block in content)
    return json.dumps(result, ensure_ascii=False, default=str)


def _block_text(block: Any) -> str:
    text = getattr(getattr(block, "resource", block), "text", None)  # an embedded resource's is one level deeper
    return text if isinstance(text, str) else f"[{getattr(block, 'type', type(block).__name__)}]"


@dataclass(frozen=True, slots=True)
class Turned:
    """The changes of one message.

    Args:
        added: names of the tools that it made visible, in order.
        evicted: names of loaded tools that went out for them.
        frozen: whether further messages add nothing: only search, load and calls do.
        cause: why it made nothing visible, and why the ranking was less than it could be, in the words of a list's
            `_meta`; empty where neither is so.
    """

    added: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    n_turns: int = 0
    frozen: bool = False
    cause: str = ""


class ToolArgumentsError(AgentUtilitiesError, ValueError):
    """A tool was called with arguments that do not fit; the message has its error and its schema."""

    def __init__(self, error: Exception, explanation: str, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        super().__init__(f"{error}\n{explanation}")


Definition = Mapping[str, Any]
"""A tool as `tools/list` sends it."""


class RoutedTools:
    """The tools of a router, in their order, each name once, and which of them are listed.

    Args:
        server: the server that they come from; empty where it is not known.
        host_tools: the names of the host's own tools.
    """

    def __init__(
        self,
        tools: Iterable[Any],
        server: str = "",
        *,
        preferences: Preferences = NO_PREFERENCES,
        host_tools: frozenset[str] = frozenset(),
    ) -> None:
        self.definitions: dict[str, Definition] = {}
        for definition in map(_definition, tools):
            self.definitions.setdefault(definition["name"], definition)
        self.server, self.host_tools = server, host_tools
        self.names = tuple(self.definitions)
        self.entries = tuple(entry("tool", name, tags=_tags(each)) for name, each in self.definitions.items())
        # A gateway's upstreams are tags, and its tools' names begin with them: where every tool's does, that is its
        # server. Else all are from the one that lists them.
        prefixes = tuple(map(_prefix, self.entries))
        self.servers = prefixes if all(prefixes) else (server,) * len(prefixes)
        self._server_of = dict(zip(self.names, self.servers, strict=True))
        self.legal = legal_names(self.names, host_tools)
        """By their own names, those under which models know the tools; the host's own tools keep theirs."""
        self._own = {legal: name for name, legal in self.legal.items()}
        self.entry = entry_names({*self.names, *host_tools})
        """The names of the entry tools, which no tool has, neither the host's nor these."""
        self.permitted = Permitted(decide(Catalog(self.entries), effective(NOTHING), preferences), preferences)
        """All of them: which are pinned, and which may be deferred and active."""
        self.by_words: Index | None = None
        self.better: Future[Index] | None = None
        """Their indexes: by words, and by more than words as soon as that is made behind, where it is wanted."""

    @cached_property
    def documents(self) -> tuple[ToolDocument, ...]:
        """The tools as a ranker reads them."""
        return tuple(map(document, self.definitions.values(), self.servers))

    def of_server(self, server: str) -> tuple[int, ...]:
        """Return the places of the tools of a server, or of those with a tag of that name; `InputError` for none."""
        if fold(server) == fold(self.server):
            return tuple(range(len(self.names)))
        names = names_of_server(server, zip(self.entries, self.servers, strict=True))
        return tuple(place for place, name in enumerate(self.names) if name in names)

    def own(self, name: str) -> str:
        """Return the tool's own name for one that a model knows it under; any other name as it is."""
        # A tool's own name means that tool, also where another tool's legal name is the same.
        return name if name in self.definitions else self._own.get(name, name)

    # -- what is listed ----------------------------------------------------------------------------------------------

    def listed(self, active: Active) -> tuple[str, ...]:
        """Return the names of what is listed beside the entry tools: pins, then active tools as they came."""
        permitted = self.permitted
        if not permitted.defers:
            return self.names
        return (*permitted.pinned, *fitting(permitted.bounded(active), permitted.room, permitted.deferral.max_active))

    @cached_property
    def about_deferred(self) -> str:
        """The text for the model about deferrable tools: the same whatever is active, for prompt caches.

        10,000 tools take 100 ms: make it in a thread where it may be that many.
        """
        deferred = [entry for entry in self.entries if entry.name in self.permitted.not_pinned]
        tools = [DeferredTool(self._server_of[each.name], tuple(sorted(each.tags))) for each in deferred]
        return deferred_text(tools, len(tools), search=self.entry.search)

    def shown(self, active: Active) -> list[dict[str, Any]]:
        """Return definitions of what is listed, as copies: the entry tools while any tool is deferred, then tools."""
        listed = takewhile(lambda tool: tool[0] != DEFERRED, self._in_sections(active))
        return [_copied(definition) for _, _, definition in listed]

    def context(self, active: Active) -> ContextReport:
        """Return a report of what is listed, and of what is deferred."""
        return context_report(list(self._in_sections(active)), "", max_active=self.permitted.deferral.max_active)

    def _in_sections(self, active: Active) -> Iterator[SectionTool]:
        """Yield each tool with its section and server, in the order of the list, and after it the deferred ones."""
        permitted = self.permitted
        listed, loaded = dict.fromkeys(self.listed(active)), frozenset(permitted.bounded(active).loaded)
        if len(listed) < len(self.names):
            yield ENTRY_TOOLS, self.server, search_definition(self.entry, self.about_deferred)
            yield ENTRY_TOOLS, self.server, call_definition(self.entry)
        for name in listed:
            section = ACTIVE if name in loaded else ATTACHED if name in permitted.not_pinned else PINS
            yield section if permitted.defers else LISTED, self._server_of[name], self.definitions[name]
        for name in self.names:
            if name not in listed:
                yield DEFERRED, self._server_of[name], self.definitions[name]


_KEYS = {"input_schema": "inputSchema", "parameters": "inputSchema", "output_schema": "outputSchema", "meta": "_meta"}
"""Keys of a tool as `tools/list` sends them, by those of the SDK's objects, Anthropic's and OpenAI's."""
_OF_PROVIDERS = ("type", "strict")
_WORD = re.compile(r"_(\w)")


def _definition(tool: Any) -> Definition:
    """Return a tool as `tools/list` sends it: of FastMCP, the SDK, Anthropic or OpenAI, an object or a mapping."""
    if not isinstance(fields := _fields(tool), dict):
        fields = {}
    if fields.get("type") == "function" and "function" in fields:  # as OpenAI's chat completions nest it
        return _definition(fields["function"])
    definition = {
        _KEYS.get(key, key): each for key, each in fields.items() if each is not None and key not in _OF_PROVIDERS
    }
    name, schema, hints = definition.get("name"), definition.get("inputSchema"), definition.get("annotations")
    if not isinstance(name, str) or not name:
        hint = "give tools of FastMCP, the MCP SDK, Anthropic or OpenAI: a name, a description and a schema"
        raise InputError("not a tool with a name", tool, "ToolRouter: tools", hint)
    if isinstance(hints, dict):
        hints = {_WORD.sub(lambda word: word[1].upper(), key): hint for key, hint in hints.items()}
        definition["annotations"] = {key: hint for key, hint in hints.items() if hint is not None}
    if not isinstance(schema, dict) or not schema:
        definition["inputSchema"] = {"type": "object", "properties": {}}
    return definition


def _fields(tool: Any) -> Any:
    """Return what an object has, as JSON that nobody else changes."""
    if hasattr(tool, "to_mcp_tool"):
        tool = tool.to_mcp_tool()
    if hasattr(tool, "model_dump"):
        return tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _copied(tool if isinstance(tool, Mapping) else getattr(tool, "__dict__", tool))


def _copied(value: Any) -> Any:
    """Return JSON with objects and arrays of its own, in a quarter of the time that `deepcopy` takes."""
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, (list, tuple)) else value


def _tags(definition: Definition) -> tuple[str, ...]:
    tags: Any = definition
    for key in ("_meta", "fastmcp", "tags"):
        tags = tags.get(key) if isinstance(tags, Mapping) else None
    return tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, (list, tuple)) else ()


def _prefix(tool: Entry) -> str:
    """Return the longest of a tool's tags that its name begins with; empty where it begins with none."""
    name = fold(tool.name)
    return max((tag for tag in tool.tags if name.startswith(f"{tag}_")), key=len, default="")


def why_no_turn(permitted: Permitted, active: Active, query: str) -> str:
    """Return why words open no turn; empty where they do."""
    if not permitted.defers:
        return "nothing is deferred"
    if not query:
        return "no words"
    if is_frozen(active, permitted.deferral):
        return f"frozen after turn {active.n_turns}"
    return "" if is_new_turn(active, query, permitted.deferral) else "the words of the last turn"


def result_budget(tokens: int | str) -> int:
    """Return a router's budget of results in tokens; raises `SettingsError`."""
    field, source = field_of("result_tokens", "meta"), "ToolRouter: result_tokens"
    assert field is not None
    try:
        value = read_value(str(tokens), field, "result_tokens", source)
    except SelectionError as error:
        raise SettingsError(error.what, error.value, source, error.hint) from None
    return value if isinstance(value, int) else NO_LIMIT


def preferences_of_arguments(*, pins: Collection[str] | str, **others: Active | str | int | None) -> Preferences:
    """Return the preferences in a router's arguments: its pins, when tools are deferred, and the set to start with."""
    texts = {"pin": pins if isinstance(pins, str) else ",".join(pins), **others}
    settings: list[tuple[Slot, Setting]] = []
    for key, text in texts.items():
        field = field_of(key, "meta")
        assert field is not None, key
        source = f"ToolRouter: {'pins' if key == 'pin' else key}"
        try:
            value = text if isinstance(text, Active | None) else read_value(str(text), field, key, source)
        except SelectionError as error:
            raise SettingsError(error.what, error.value, source, error.hint) from None
        if value is not None:
            settings.append(((field.name, "meta"), Setting(value, (source,), "caller")))
    return preferences_of(effective(Selection(tuple(settings))))
