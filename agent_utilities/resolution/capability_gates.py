"""What a capability must clear to be activated unasked: one gate for each way of comparing, and what each is worth.

A gate holds for the model that it was measured with alone: cosines of another are on another scale. So a model that
has none here compares nothing, and words route in its place, under their own gate.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_utilities.capabilities.routing import Gate

BY_WORDS = Gate(threshold=0.27, margin=0.005)
"""Words alone: 0.91 abstained as the mean of three sets; cross-validated .585 hit at .903. The figures are by
`benchmarks/capability_routing.py`."""

BY_MODEL: Mapping[str, Gate] = {"minilm-l6-v2": Gate(threshold=0.22, margin=0.005)}
"""Vectors and words, by the model's name: 0.94 abstained as the mean of the same sets, 0.95 and more on
the two easier ones; cross-validated .718 hit at .952."""
