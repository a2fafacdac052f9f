"""What a capability must clear to be activated unasked: one gate for each way of comparing, and what each is worth.

A gate holds for the model that it was measured with alone: cosines of another are on another scale. So a model that
has none here compares nothing, and words route in its place, under their own gate.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent_utilities.capabilities.routing import Gate

BY_WORDS = Gate(threshold=0.32, margin=0.005)
"""Words alone. On 382 rows over 58 bundles (2026-11-23): top-1 .772, .695 hit, .918 abstained; cross-validated .706 at
.909."""

BY_MODEL: Mapping[str, Gate] = {"minilm-l6-v2": Gate(threshold=0.275, margin=0.005)}
"""Vectors and words, by the model's name. On the same rows: top-1 .860, .743 hit, .964 abstained; cross-validated .754
at .945. `benchmarks/capability_routing.py` measures them."""
