"""Sentences that requests are held against: what no tool need answer, and talk about a thing beside requests on it.

They come from no data set, and the things in them are none that a capability is likely to be for. They stand in
`examples.json`.
"""

from __future__ import annotations

import json
from pathlib import Path

_SENTENCES = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))

UNANSWERABLE: tuple[str, ...] = tuple(_SENTENCES["unanswerable"])
PATTERNS: tuple[str, ...] = tuple(_SENTENCES["patterns"])
"""How people put what calls for no tool: opinions, comparisons, theory, jokes, remarks."""
TALK: tuple[str, ...] = tuple(talk for talk, _ in _SENTENCES["talk_and_requests"])
REQUESTS: tuple[str, ...] = tuple(request for _, request in _SENTENCES["talk_and_requests"])
EXAMPLES: tuple[str, ...] = (*UNANSWERABLE, *PATTERNS, *TALK, *REQUESTS)
"""What is embedded once, beside triggers: talk first, requests last."""
N_UNANSWERABLE = len(UNANSWERABLE)
N_TALK = len(EXAMPLES) - len(REQUESTS)
