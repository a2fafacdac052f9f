"""What a tool costs in an agent's prompt."""

from __future__ import annotations

import json
from typing import Any

_BYTES_PER_TOKEN = 3.8


def n_tokens(definition: dict[str, Any]) -> int:
    """Return about how many tokens a tool's definition takes in a prompt, on every turn.

    An estimate that needs no tokenizer: bytes of the compact JSON over 3.8, for planning and comparing rather than
    for billing; providers' own counts differ from one another by more than its error.

    Args:
        definition: the tool as `tools/list` sends it.
    """
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    return round(len(text.encode("utf-8", "surrogatepass")) / _BYTES_PER_TOKEN)
