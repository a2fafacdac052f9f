"""What a capability must clear to be activated unasked: one gate for each way of comparing, and what each is worth.

A gate holds for the model that it was measured with alone: cosines of another are on another scale. So a model that
has none here compares nothing, and words route in its place, under their own gate.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_utilities.capabilities.routing import Gate

BY_WORDS = Gate(threshold=0.27, margin=0.005, margin_of_one=0.4)
"""Words alone."""

BY_MODEL: Mapping[str, Gate] = {"minilm-l6-v2": Gate(threshold=0.225, margin=0.01, margin_of_one=0.6)}
"""Vectors and words, by the model's name. What both come to, also where they are chosen apart, is told by
`benchmarks/capability_routing.py` and docs/ranking.md."""
