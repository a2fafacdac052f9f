"""The context report: what a server puts into an agent's prompt on every turn, how many tokens, and when to warn."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

ESTIMATE = "an estimate: bytes of compact JSON / 3.8"
"""How reports name `n_tokens`."""
_BYTES_PER_TOKEN = 3.8
_KEYS_FOR_MODELS = ("name", "description", "inputSchema")


def n_tokens(shown: Mapping[str, Any] | str) -> int:
    """Estimate the tokens of a tool's definition, or of a text, without a tokenizer: bytes over 3.8.

    For planning, not for billing; providers' own counts differ from one another by more than its error.
    """
    return round(len(text_for_models(shown).encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN)


def text_for_models(shown: Mapping[str, Any] | str) -> str:
    """Return the text that hosts give a model: a tool's name, description and input schema as compact JSON."""
    if isinstance(shown, str):
        return shown
    return json.dumps(for_models(shown), ensure_ascii=False, separators=(",", ":"))


def for_models(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a tool's definition that hosts give a model."""
    return {key: definition[key] for key in _KEYS_FOR_MODELS if key in definition}


MANY_TOOLS = 40
"""From more listed tools on a warning is due: models choose among them less and less well."""
MANY_TOKENS = 10_000
"""The same of listed tools' tokens, which are in the prompt on every turn."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """The facts of a listed tool that `surface_warning` reads."""

    tags: frozenset[str]
    read_only: bool
    tokens: int


def surface_warning(tools: Sequence[ListedTool], *, can_defer: bool, defers: bool) -> str | None:
    """Return the warning that a list is large, with what would cut it; None where it is not.

    It names toolsets, so it is for operators alone.
    """
    if not is_large(len(tools), sum(tool.tokens for tool in tools)):
        return None
    cuts = _cuts(tools, can_defer=can_defer, defers=defers)
    n_tokens = sum(tool.tokens for tool in tools)
    would_cut = f"; {', '.join(cuts)}" if cuts else ""
    return f"a large surface: {len(tools)} tools, about {n_tokens:,} tokens in every prompt{would_cut}"


def is_large(n_tools: int, n_tokens: int = 0) -> bool:
    """Whether so many listed tools, or tokens of them, are worth a warning."""
    return n_tools > MANY_TOOLS or n_tokens > MANY_TOKENS


def open_warning(*, defers: bool) -> str:
    """Return the same warning for everybody: without names and numbers."""
    cuts = "fewer --pin" if defers else "--tool-search on, --toolsets or --read-only"
    return (
        f"a large surface: over {MANY_TOOLS} tools or {MANY_TOKENS:,} tokens in every prompt; {cuts} would cut it; "
        "see what was logged at the start, or --list"
    )


def _cuts(tools: Sequence[ListedTool], *, can_defer: bool, defers: bool) -> list[str]:
    cuts = ["fewer --pin would cut it"] if defers else ["--tool-search on defers all but --pin"] if can_defer else []
    if (toolset := _largest_toolset(tools)) is not None:
        cuts.append(f"--toolsets {toolset} leaves {_size([tool for tool in tools if toolset in tool.tags])}")
    if any(tool.read_only for tool in tools) and not all(tool.read_only for tool in tools):
        cuts.append(f"--read-only leaves {_size([tool for tool in tools if tool.read_only])}")
    return cuts


def _largest_toolset(tools: Sequence[ListedTool]) -> str | None:
    """Return the tag whose tools cost most, of those that not every tool has; of equals the first alphabetically."""
    n_bearing, costs = Counter[str](), Counter[str]()
    for tool in tools:
        n_bearing.update(tool.tags)
        costs.update(dict.fromkeys(tool.tags, tool.tokens))
    partial = [tag for tag, n in n_bearing.items() if n < len(tools)]
    return min(partial, key=lambda tag: (-costs[tag], tag), default=None)


def _size(tools: Sequence[ListedTool]) -> str:
    return f"{len(tools)} ({sum(tool.tokens for tool in tools):,} tokens)"


ENTRY_TOOLS = "entry tools"
PINS = "pins"
ATTACHED = "attached"
ACTIVE = "active"
"""Loaded tools: those that search, load or a call activated."""
LISTED = "listed"
"""All visible tools, where tool search defers none."""
INSTRUCTIONS = "instructions"
DEFERRED = "deferred"
"""Tools that are permitted and not visible: what they would cost."""
SECTIONS = (ENTRY_TOOLS, PINS, ATTACHED, ACTIVE, LISTED, INSTRUCTIONS, DEFERRED)
"""The sections, in a report's order."""
_WHILE_DEFERRING = (ENTRY_TOOLS, PINS, ATTACHED, ACTIVE)

Definition = Mapping[str, Any]
"""A tool as `tools/list` sends it."""
SectionTool = tuple[str, str, Definition]
"""A section, the server of a tool in it, and the tool."""
Count = Callable[[Mapping[str, Any] | str], int]
"""Returns how many tokens a definition or a text takes."""


@dataclass(frozen=True, slots=True)
class ContextRow:
    """The tokens of one server's tools in one section."""

    section: str
    server: str
    n_tools: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextReport:
    """What a server puts into one caller's prompt.

    Args:
        rows: in the order of `SECTIONS`, in a section the dearest server first.
        n_active, active_names: the loaded tools, in order of activation.
        max_active: the most loaded tools; 0 for no limit.
        n_permitted: without entry tools.
        undeferred_tokens: those of the same prompt without tool search.
        n_evicted: how many loaded tools were evicted so far, where that is known.
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
        """The tokens in the prompt on every turn: the sum of all rows except deferred tools."""
        return sum(row.tokens for row in self.rows if row.section != DEFERRED)

    @property
    def defers(self) -> bool:
        """Whether tool search defers tools."""
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
        """Return all of it as JSON."""
        values = asdict(self)
        values["active"], values["rows"] = list(values.pop("active_names")), list(values["rows"])
        return {"line": self.line, "active_line": self.active_line, "total": self.total, **values}


def attached_line(n_attached: int, n_permitted: int, n_active: int, max_active: int) -> str:
    """Return in one line how many deferred tools are active: "30 of 159 attached, 3 of 24 active"."""
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
    """Count what a server puts into a caller's prompt.

    Args:
        definitions: every permitted tool in list order, with its section and server; entry tools too where there are.
        instructions: those that the caller gets; empty for none.
        server: the server's own name, under which instructions are counted.
        undeferred_instructions: those without tool search; the same where None.
        tokenizer: what `count` is, in words.
    """
    costs: dict[tuple[str, str], list[int]] = {}
    for section, of_server, definition in definitions:
        costs.setdefault((section, of_server), []).append(count(definition))
    rows = [ContextRow(section, of_server, len(each), sum(each)) for (section, of_server), each in costs.items()]
    permitted = [row for row in rows if row.section != ENTRY_TOOLS]
    n_instructions = count(instructions) if instructions else 0
    if n_instructions:
        rows.append(ContextRow(INSTRUCTIONS, server, 0, n_instructions))
    if undeferred_instructions is not None:
        n_instructions = count(undeferred_instructions) if undeferred_instructions else 0
    active = tuple(str(definition["name"]) for section, _, definition in definitions if section == ACTIVE)
    return ContextReport(
        rows=tuple(sorted(rows, key=lambda row: (SECTIONS.index(row.section), -row.tokens, row.server))),
        n_active=len(active),
        max_active=max_active,
        active_names=active,
        n_permitted=sum(row.n_tools for row in permitted),
        n_attached=sum(row.n_tools for row in permitted if row.section == ATTACHED),
        undeferred_tokens=n_instructions + sum(row.tokens for row in permitted),
        tokenizer=tokenizer,
        n_evicted=n_evicted,
    )
