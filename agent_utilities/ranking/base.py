from __future__ import annotations

from agent_utilities.errors import AgentUtilitiesError


class RankerError(AgentUtilitiesError, RuntimeError):
    """x"""
