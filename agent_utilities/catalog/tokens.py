"""What a tool costs in an agent's prompt."""

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

    Args:
        shown: the tool as `tools/list` sends it, or a text.
    """
    return round(len(text_for_models(shown).encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN)


def text_for_models(shown: Mapping[str, Any] | str) -> str:
    """Return what hosts hand to a model: of a tool name, description and input schema, as compact JSON.

    Args:
        shown: the tool as `tools/list` sends it, or a text, which is returned as it is.
    """
    if isinstance(shown, str):
        return shown
    for_models = {key: shown[key] for key in _KEYS_FOR_MODELS if key in shown}
    return json.dumps(for_models, ensure_ascii=False, separators=(",", ":"))
