"""The tool by which a model lists, finds, and switches capabilities: written for each caller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_types import ToolAnnotations

from agent_utilities.capabilities.model import Capabilities
from agent_utilities.catalog.model import entry
from agent_utilities.mcp.own_tool import ALWAYS_LOADED, Answer, OwnTool

CAPABILITY = "capability"
"""The tool's name."""
AS_JUDGED = entry("tool", CAPABILITY, read_only=True)
"""The tool as bounds judge it: what it switches on is bounded tool by tool."""
ACTIONS = ("list", "discover", "enable", "disable")
_N_DOMAINS = 20


def capability_tool(capabilities: Capabilities, usable: frozenset[str], answer: Answer) -> OwnTool:
    """Return the tool as one caller is listed it.

    Args:
        capabilities: all there are.
        usable: names of those that there are for them.
        answer: what it does with its arguments.
    """
    return OwnTool(
        name=CAPABILITY,
        description=_description(domains_of(capabilities, usable), len(usable)),
        parameters=_PARAMETERS,
        annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True),
        meta=dict(ALWAYS_LOADED),
        answer=answer,
        purpose="switches capabilities on and off",
    )


def domains_of(capabilities: Capabilities, usable: frozenset[str]) -> Sequence[str]:
    """Return what the capabilities of a caller are about: each domain once, by name."""
    return sorted({domain for name in usable for domain in capabilities.by_name[name].domains})


def _description(domains: Sequence[str], n_usable: int) -> str:
    """Return what a model reads; it stays the same whatever is on, for prompt caches."""
    shown = domains[:_N_DOMAINS]
    more = f" and {len(domains) - len(shown)} more domains" if len(domains) > len(shown) else ""
    about = f", for {', '.join(shown)}{more}" if shown else ""
    noun = "capability" if n_usable == 1 else "capabilities"
    return (
        f"Switch capabilities on or off. A capability is a set of tools; {n_usable} {noun} can be on{about}. "
        "When no listed tool does what is needed, call this with action=discover and the intent, then action=enable "
        "and a name: its tools are listed from then on. action=list shows all; action=disable switches one off."
    )


_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS), "description": "What to do."},
        "name": {"type": "string", "description": "enable, disable: the capability's name."},
        "intent": {"type": "string", "description": "discover: what is to be done, in plain words."},
    },
    "required": ["action"],
    "additionalProperties": False,
}
