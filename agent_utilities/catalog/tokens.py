"""What tools cost in an agent's prompt, and whether what is listed is more than a model can choose from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
