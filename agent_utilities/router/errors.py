"""What a model is told where it called a tool whose schema it had not seen with arguments that do not fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_utilities.errors import AgentUtilitiesError


class ToolArgumentsError(AgentUtilitiesError, ValueError):
    """A tool was called with arguments that do not fit; tells what it said, and what it takes.

    Args:
        error: what it said.
        told: what is wrong, and its schema.
        schema: the same for programs.
    """

    def __init__(self, error: Exception, told: str, schema: Mapping[str, Any]) -> None:
        self.schema = schema
        super().__init__(f"{error}\n{told}")
