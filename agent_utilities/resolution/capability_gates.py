"""What a capability must clear to be activated unasked: one gate for each way of comparing."""

from __future__ import annotations

from agent_utilities.capabilities.routing import Gate

BY_MEANING = Gate(0.345, 0.01)
BY_WORDS = Gate(0.41, 0.01)
