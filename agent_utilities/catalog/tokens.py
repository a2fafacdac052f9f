"""What a tool costs in an agent's prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_BYTES_PER_TOKEN = 3.8
_KEYS_FOR_MODELS = ("name", "description", "inputSchema")


def n_tokens(definition: Mapping[str, Any]) -> int:
    """Return about how many tokens a tool's definition takes in a prompt, on every turn.

    Counted is what hosts hand to a model: name, description and input schema. An estimate that needs no tokenizer:
    bytes of their compact JSON over 3.8, for planning and comparing rather than for billing; providers' own counts
    differ from one another by more than its error.

    Args:
        definition: the tool as `tools/list` sends it.
    """
    for_models = {key: definition[key] for key in _KEYS_FOR_MODELS if key in definition}
    text = json.dumps(for_models, ensure_ascii=False, separators=(",", ":"))
    return n_text_tokens(text)


def n_text_tokens(text: str) -> int:
    """Return about how many tokens a text takes in a prompt, by the same estimate."""
    return round(len(text.encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN)
