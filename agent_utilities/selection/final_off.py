"""Tool search that the operator turns off for good, and asks for all the same."""

from __future__ import annotations

from agent_utilities.activation.deferral import OFF, Threshold
from agent_utilities.selection.merge import Effective
from agent_utilities.selection.model import Selection


def final_off(selection: Selection) -> str | None:
    """Return in one line that the environment's `off` stands against the command line; None where it need not.

    Elsewhere the command line replaces the environment, so whoever launches a server would look for tools deferred.

    Args:
        selection: the operator's.
    """
    given = dict(selection.slots)
    off, asked = given.get(("tool_search", "env")), given.get(("tool_search", "cli"))
    if off is None or off.value != OFF or asked is None or asked.value == OFF:
        return None
    assert isinstance(asked.value, Threshold)
    option = asked.origins[0].removeprefix("option ")
    return f"tool search is off by {off.origins[0]}, which {option} {asked.value.spelled} cannot lift"


def off_for_no_match(settings: Effective) -> str | None:
    """Return in one line that an operator's `off` stands against `no_match=search`; None where there is none.

    Args:
        settings: those that hold for a caller who asks for nothing.
    """
    off = dict(settings.searching).get("tool_search")
    if off is None or off.value != OFF:
        return None
    return f"tool search is off by {off.origins[0]}, which no_match=search cannot lift: an unanswered query lists all"
