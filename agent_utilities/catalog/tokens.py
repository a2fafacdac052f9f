"""What tools cost in an agent's prompt, and whether what is listed is more than a model can choose from."""

from __future__ import annotations

import json
from collections.abc import Mapping
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


def surface_warning(n_tools: int, n_tokens: int, *, defers: bool) -> str | None:
    """Return in one line that what callers are listed is large, and what would cut it; None where it is not."""
    if not is_large(n_tools, n_tokens):
        return None
    return f"a large surface: {n_tools} tools, about {n_tokens:,} tokens in every prompt; {_cuts(defers)} would cut it"


def is_large(n_tools: int, n_tokens: int = 0) -> bool:
    """Whether so many listed tools, or so many tokens of them, are to be warned of."""
    return n_tools > MANY_TOOLS or n_tokens > MANY_TOKENS


def open_warning(*, defers: bool) -> str:
    """Return the same as anybody may read it: without a number that is not everybody's to know."""
    return (
        f"a large surface: over {MANY_TOOLS} tools or {MANY_TOKENS:,} tokens in every prompt; "
        f"{_cuts(defers)} would cut it; see what was logged at the start, or --list"
    )


def _cuts(defers: bool) -> str:
    return "fewer --pin" if defers else "--tool-search on, --toolsets or --read-only"
