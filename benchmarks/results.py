"""What to run, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from benchmarks.http_lane import ERAS, Era
from benchmarks.measure import Rounds
from benchmarks.worker import N_GROUPS, tool_name

CHOSEN = ",".join(tool_name(i) for i in range(5))
SELECTIONS: dict[str, dict[str, str]] = {
    "none": {},
    "5 tools": {"x-mcp-enabled-tools": CHOSEN},
    "by tag": {"x-mcp-enabled-tags": "group_3"},
}


@dataclass(frozen=True)
class Plan:
    """How much to run.

    Args:
        sizes: catalog sizes, with how many times the workers are started anew at each: processes of one
            program differ a little from start to start.
        server_s: seconds a size for lists and calls in the server.
        http_s: seconds a size over HTTP.
        n_imports: fresh processes a contender for import time.
        n_launches: fresh processes a contender for launch time.
        n_memory: fresh processes a contender for memory.
    """

    sizes: dict[int, int]
    server_s: float
    http_s: float
    n_imports: int
    n_launches: int
    n_memory: int


@dataclass
class Results:
    """Everything that a run measured; lanes are named `contender/selection`.

    Args:
        lists: in the server, by catalog size.
        calls: in the server, by catalog size.
        http_lists: over HTTP, by era and catalog size.
        http_calls: over HTTP in the 2026-07-28 era, by catalog size.
        decisions: steps of a decision at 1,000 tools.
        imports: fresh processes.
        launches: fresh processes.
        commands: whole processes of command lines that ask about themselves.
        rss_bytes: resident sets after listing 1,000 tools, by contender.
        notes: what could not be run, and why.
    """

    lists: dict[int, Rounds] = field(default_factory=dict)
    calls: dict[int, Rounds] = field(default_factory=dict)
    http_lists: dict[Era, dict[int, Rounds]] = field(default_factory=lambda: {era: {} for era in ERAS})
    http_calls: dict[int, Rounds] = field(default_factory=dict)
    decisions: Rounds = field(default_factory=Rounds)
    imports: Rounds = field(default_factory=Rounds)
    launches: Rounds = field(default_factory=Rounds)
    commands: Rounds = field(default_factory=Rounds)
    rss_bytes: dict[str, list[int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values, timings as the median of each block in seconds."""
        return {
            "lists": {n: each.as_dict() for n, each in self.lists.items()},
            "calls": {n: each.as_dict() for n, each in self.calls.items()},
            "http_lists": {era: {n: e.as_dict() for n, e in found.items()} for era, found in self.http_lists.items()},
            "http_calls": {n: each.as_dict() for n, each in self.http_calls.items()},
            "decisions": self.decisions.as_dict(),
            "imports": self.imports.as_dict(),
            "launches": self.launches.as_dict(),
            "commands": self.commands.as_dict(),
            "rss_bytes": self.rss_bytes,
            "notes": self.notes,
        }


def n_visible(selection: str, n_tools: int) -> int:
    """Return how many tools a selection shows."""
    return {"none": n_tools, "5 tools": 5, "by tag": len(range(3, n_tools, N_GROUPS))}[selection]
