"""The context report: what of a server is in an agent's prompt on every turn, what it costs, and what is too much."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

ESTIMATE = "an estimate: bytes of compact JSON / 3.8"
"""What counts where no tokenizer does, as reports name it."""
_BYTES_PER_TOKEN = 3.8
_KEYS_FOR_MODELS = ("name", "description", "inputSchema")


def n_tokens(shown: Mapping[str, Any] | str) -> int:
    """Return about how many tokens a tool's definition, or a text, takes in a prompt, on every turn.

    An estimate that needs no tokenizer: bytes of what a model is shown over 3.8, for planning and comparing rather than
    for billing; providers' own counts differ from one another by more than its error.
    """
    return round(len(text_for_models(shown).encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN)


def text_for_models(shown: Mapping[str, Any] | str) -> str:
    """Return what hosts hand to a model: of a tool name, description and input schema, as compact JSON."""
    if isinstance(shown, str):
        return shown
    return json.dumps(for_models(shown), ensure_ascii=False, separators=(",", ":"))


def for_models(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a tool's definition hosts hand to a model."""
    return {key: definition[key] for key in _KEYS_FOR_MODELS if key in definition}


MANY_TOOLS = 40
"""More listed tools than this are many: models choose among them less and less well."""
MANY_TOKENS = 10_000
"""More tokens of listed tools than this are many: they are in the prompt on every turn."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """What counts of a tool that callers are listed."""

    tags: frozenset[str]
    read_only: bool
    tokens: int


def surface_warning(tools: Sequence[ListedTool], *, can_defer: bool, defers: bool) -> str | None:
    """Return in one line that what callers are listed is large, and what would cut it; None where it is not.

    It names toolsets, so it is for the operator's eyes.
    """
    if not is_large(len(tools), sum(tool.tokens for tool in tools)):
        return None
    cuts = _cuts(tools, can_defer=can_defer, defers=defers)
    n_tokens = sum(tool.tokens for tool in tools)
    would_cut = f"; {', '.join(cuts)}" if cuts else ""
    return f"a large surface: {len(tools)} tools, about {n_tokens:,} tokens in every prompt{would_cut}"


def is_large(n_tools: int, n_tokens: int = 0) -> bool:
    """Whether so many listed tools, or so many tokens of them, are to be warned of."""
    return n_tools > MANY_TOOLS or n_tokens > MANY_TOKENS


def open_warning(*, defers: bool) -> str:
    """Return the same as anybody may read it: without a name or a number that is not everybody's to know."""
    cuts = "fewer --pin" if defers else "--tool-search on, --toolsets or --read-only"
    return (
        f"a large surface: over {MANY_TOOLS} tools or {MANY_TOKENS:,} tokens in every prompt; {cuts} would cut it; "
        "see what was logged at the start, or --list"
    )


def _cuts(tools: Sequence[ListedTool], *, can_defer: bool, defers: bool) -> list[str]:
    cuts = ["fewer --pin would cut it"] if defers else ["--tool-search on defers all but --pin"] if can_defer else []
    if (toolset := _largest_toolset(tools)) is not None:
        cuts.append(f"--toolsets {toolset} leaves {_told([tool for tool in tools if toolset in tool.tags])}")
    if any(tool.read_only for tool in tools) and not all(tool.read_only for tool in tools):
        cuts.append(f"--read-only leaves {_told([tool for tool in tools if tool.read_only])}")
    return cuts


def _largest_toolset(tools: Sequence[ListedTool]) -> str | None:
    """Return the tag whose tools cost most, of those that not all bear; the first in the alphabet of equal ones."""
    n_bearing, costs = Counter[str](), Counter[str]()
    for tool in tools:
        n_bearing.update(tool.tags)
        costs.update(dict.fromkeys(tool.tags, tool.tokens))
    partial = [tag for tag, n in n_bearing.items() if n < len(tools)]
    return min(partial, key=lambda tag: (-costs[tag], tag), default=None)


def _told(tools: Sequence[ListedTool]) -> str:
    return f"{len(tools)} ({sum(tool.tokens for tool in tools):,} tokens)"


ENTRY_TOOLS = "entry tools"
"""`tool_search` and `call_tool`, there while something is deferred."""
PINS = "pins"
"""Tools that are never deferred."""
ATTACHED = "attached"
"""Deferred tools that the words of a turn brought back."""
ACTIVE = "active"
"""Deferred tools that search, load or a call brought back."""
LISTED = "listed"
"""All visible tools, where none is deferred by tool search."""
INSTRUCTIONS = "instructions"
"""What the server says of itself to models."""
DEFERRED = "deferred"
"""Tools that are permitted and not visible: what they would cost."""
SECTIONS = (ENTRY_TOOLS, PINS, ATTACHED, ACTIVE, LISTED, INSTRUCTIONS, DEFERRED)
"""The sections, in a report's order."""
_WHILE_DEFERRING = (ENTRY_TOOLS, PINS, ATTACHED, ACTIVE)

Definition = Mapping[str, Any]
"""A tool as `tools/list` sends it."""
SectionTool = tuple[str, str, Definition]
"""A section, the server that a tool in it is from, and the tool."""
Count = Callable[[Mapping[str, Any] | str], int]
"""Returns how many tokens a definition or a text takes."""


@dataclass(frozen=True, slots=True)
class ContextRow:
    """What the tools of one server cost in one section."""

    section: str
    server: str
    n_tools: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextReport:
    """What of a server is in one caller's prompt.

    Args:
        rows: in the order of `SECTIONS`, in a section the dearest server first.
        n_active: how many tools search, load and calls keep active.
        max_active: the most that they keep; 0 for any number.
        active_names: the active tools, in the order they came.
        n_permitted: how many tools the caller may use, entry tools not counted.
        n_attached: how many the words of turns attached.
        undeferred_tokens: what the same prompt would cost if nothing were deferred.
        tokenizer: what counted the tokens, in words.
        n_evicted: how many loaded tools have gone out for others so far, where that is known.
    """

    rows: tuple[ContextRow, ...]
    n_active: int
    max_active: int
    active_names: tuple[str, ...]
    n_permitted: int
    n_attached: int
    undeferred_tokens: int
    tokenizer: str
    n_evicted: int = 0

    @property
    def total(self) -> int:
        """What is in the prompt on every turn, in tokens: the sum of all rows but those of deferred tools."""
        return sum(row.tokens for row in self.rows if row.section != DEFERRED)

    @property
    def defers(self) -> bool:
        """Whether tools are deferred by tool search."""
        return any(row.section in _WHILE_DEFERRING for row in self.rows)

    @property
    def line(self) -> str:
        """The state in one line, as hosts show it: "30 of 159 attached, 3 of 24 active"."""
        if not self.defers:
            n_listed = sum(row.n_tools for row in self.rows if row.section == LISTED)
            return f"{n_listed} of {self.n_permitted} listed"
        return attached_line(self.n_attached, self.n_permitted, self.n_active, self.max_active)

    @property
    def active_line(self) -> str:
        """The active tools by name: "MCP active: 3/24 (a, b, c)"."""
        if not self.defers:
            return "MCP active: no tool search"
        of_most = f"/{self.max_active}" if self.max_active else ""
        names = f" ({', '.join(self.active_names)})" if self.active_names else ""
        return f"MCP active: {self.n_active}{of_most}{names}"

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON takes it."""
        told = asdict(self)
        told["active"], told["rows"] = list(told.pop("active_names")), list(told["rows"])
        return {"line": self.line, "active_line": self.active_line, "total": self.total, **told}


def attached_line(n_attached: int, n_permitted: int, n_active: int, max_active: int) -> str:
    """Return in one line how much of what is deferred is back: "30 of 159 attached, 3 of 24 active"."""
    of_most = f" of {max_active}" if max_active else ""
    return f"{n_attached} of {n_permitted} attached, {n_active}{of_most} active"


def context_report(
    definitions: Sequence[SectionTool],
    instructions: str,
    *,
    server: str = "",
    max_active: int = 0,
    n_evicted: int = 0,
    undeferred_instructions: str | None = None,
    count: Count = n_tokens,
    tokenizer: str = ESTIMATE,
) -> ContextReport:
    """Return what of a server is in a caller's prompt, and what it costs there.

    Args:
        definitions: every tool that the caller may use, in the order they are listed, each with its section and server;
            where tools are deferred the entry tools too.
        instructions: what the caller is told of the server; empty for nothing.
        server: the server's own name, which the instructions are counted under.
        max_active, n_evicted: as of the report.
        undeferred_instructions: what the caller would be told if nothing were deferred; the same where None.
        tokenizer: what `count` is, in words.
    """
    costs: dict[tuple[str, str], list[int]] = {}
    for section, of_server, definition in definitions:
        costs.setdefault((section, of_server), []).append(count(definition))
    rows = [ContextRow(section, of_server, len(each), sum(each)) for (section, of_server), each in costs.items()]
    permitted = [row for row in rows if row.section != ENTRY_TOOLS]
    told = count(instructions) if instructions else 0
    if told:
        rows.append(ContextRow(INSTRUCTIONS, server, 0, told))
    if undeferred_instructions is not None:
        told = count(undeferred_instructions) if undeferred_instructions else 0
    active = tuple(str(definition["name"]) for section, _, definition in definitions if section == ACTIVE)
    return ContextReport(
        rows=tuple(sorted(rows, key=lambda row: (SECTIONS.index(row.section), -row.tokens, row.server))),
        n_active=len(active),
        max_active=max_active,
        active_names=active,
        n_permitted=sum(row.n_tools for row in permitted),
        n_attached=sum(row.n_tools for row in permitted if row.section == ATTACHED),
        undeferred_tokens=told + sum(row.tokens for row in permitted),
        tokenizer=tokenizer,
        n_evicted=n_evicted,
    )
