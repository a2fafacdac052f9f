"""What a capability must clear to be activated unasked: one gate for each way of comparing."""

from __future__ import annotations

from agent_utilities.capabilities.routing import Gate

BY_MEANING = Gate(0.55, 0.08)
BY_WORDS = Gate(0.55, 0.08)
