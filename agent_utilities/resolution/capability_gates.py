"""What a capability must clear to be activated unasked: one gate for each way of comparing, and what each is worth.

A gate holds for the model that it was measured with alone: cosines of another are on another scale. So a model that
has none here compares nothing, and words route in its place, under their own gate.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_utilities.capabilities.routing import Gate

BY_WORDS = Gate(threshold=0.27, margin=0.005)
"""Words alone: some 0.91 abstained as the mean of three sets. The figures are by `benchmarks/capability_routing.py`."""

BY_MODEL: Mapping[str, Gate] = {"minilm-l6-v2": Gate(threshold=0.26, margin=0.005)}
"""Vectors and words, by the model's name: some 0.95 abstained as the mean of the same sets."""
