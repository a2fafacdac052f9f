"""What a search found, as its result tells it: to the model as text, to programs as structured content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fastmcp.tools.base import ToolResult

from agent_utilities.selection.channels import META_KEY

_FIRST = 120
"""The most characters of a description where a tool is only named."""


@dataclass(frozen=True)
class Found:
    """The answer to one search.

    Args:
        definitions: the tools that come in full, best first, as `tools/list` sends them to models.
        more: those that are only named, best first.
        scores: what the ranker gave each, by name.
        activated: names that became visible by it.
        evicted: names that went out for them.
        n_deferred: how many tools stay deferred.
        active: the value of `active` after it.
        unknown: names that no tool bears for this caller, each with the nearest that one does.
        nearest: where nothing was found, names that are most like the words.
        cause: why it is less than it could be; empty where it isn't.
        call: the name of `call_tool`, or None where it is denied.
    """

    definitions: Sequence[Mapping[str, Any]]
    n_deferred: int
    active: str
    more: Sequence[Mapping[str, Any]] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    activated: Sequence[str] = ()
    evicted: Sequence[str] = ()
    unknown: Mapping[str, Sequence[str]] = field(default_factory=dict)
    nearest: Sequence[str] = ()
    cause: str = ""
    call: str | None = None

    def result(self) -> ToolResult:
        """Return it as a tool's result."""
        told: dict[str, Any] = {"tools": [self._scored(each) for each in self.definitions]}
        if self.more:
            told["more"] = [self._scored(_named(each)) for each in self.more]
        for key, value in (("unknown", self.unknown), ("nearest", self.nearest), ("evicted", self.evicted)):
            if value:
                told[key] = value
        if self.cause:
            told["cause"] = self.cause
        told["deferred"] = self.n_deferred
        told["next"] = self._next()
        whole = {**told, "activated": list(self.activated), "evicted": list(self.evicted), "active": self.active}
        text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
        return ToolResult(text, whole, {META_KEY: {"active": self.active}})

    def _scored(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        score = self.scores.get(str(definition["name"]))
        return dict(definition) if score is None else {**definition, "score": round(score, 3)}

    def _next(self) -> str:
        by_call = f", or by {self.call}(name, arguments) where they are not in your list" if self.call else ""
        if self.definitions:
            more = "; load those in more by select:NAME" if self.more else ""
            return f"Call them by name{by_call}{more}."
        if self.unknown:
            return "No tool of that name; search by words, or select one of the nearest."
        if self.nearest:
            return "Nothing found; try other words, or load one of the nearest by select:NAME."
        return "Nothing found; try other words."


def _named(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's name, and the first sentence of what it does."""
    first = " ".join(str(definition.get("description") or "").split()).partition(". ")[0]
    if len(first) > _FIRST:
        first = first[: _FIRST - 1].rstrip() + "…"
    return {"name": definition["name"], **({"description": first} if first else {})}
