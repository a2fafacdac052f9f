"""The context report: what of a server is in an agent's prompt on every turn, and what it costs there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from agent_utilities.catalog.tokens import ESTIMATE, n_tokens

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
