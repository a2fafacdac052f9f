"""A router's settings, read and refused as the channels of a server read and refuse them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent_utilities.activation.active import NOTHING_ACTIVE, OFF, Active, Deferral, Threshold
from agent_utilities.errors import InputError, SelectionError, SettingsError
from agent_utilities.ranking.base import Ranker
from agent_utilities.ranking.open import open_ranker
from agent_utilities.selection.channels import field_of
from agent_utilities.selection.model import NO_NAMES, NameSet, Value
from agent_utilities.selection.parse import read_value


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """How a router and its children choose."""

    pins: NameSet
    deferral: Deferral
    host_tools: frozenset[str] = frozenset()


def router_settings(
    pins: Collection[str] | str, tool_search: str, numbers: Mapping[str, int | None], host_tools: Collection[str]
) -> RouterSettings:
    """Return the settings in a router's arguments.

    Raises:
        SettingsError: one of them can't be meant.
    """
    names = _read("pin", pins if isinstance(pins, str) else ",".join(pins))
    threshold = _read("tool_search", tool_search)
    values = {name: _read(name, str(number)) for name, number in numbers.items() if number is not None}
    counts = {name: value for name, value in values.items() if isinstance(value, int)}
    over = threshold.over if isinstance(threshold, Threshold) else OFF.over
    pinned = names if isinstance(names, NameSet) else NO_NAMES
    return RouterSettings(pinned, Deferral(over, only_unanswered=False, **counts), frozenset(host_tools))


def brought(active: Active | str) -> Active:
    """Return the set that a router starts with.

    Raises:
        SettingsError: it is a malformed value.
    """
    if isinstance(active, Active):
        return active
    value = _read("active", active)
    return value if isinstance(value, Active) else NOTHING_ACTIVE


def _read(key: str, text: str) -> Value | None:
    field = field_of(key, "meta")
    assert field is not None, key
    source = f"ToolRouter: {'pins' if key == 'pin' else key}"
    try:
        return read_value(text, field, key, source)
    except SelectionError as error:
        raise SettingsError(error.what, error.value, source, error.hint) from None


_KINDS = ("hybrid", "embedding")


def open_better(ranker: str | Ranker) -> Ranker | None:
    """Return what ranks by more than words; None where words are all that is asked for. No model is loaded yet.

    Raises:
        InputError: it is none of these.
    """
    if not isinstance(ranker, str):
        if not hasattr(ranker, "index"):
            hint = "give lexical, hybrid, embedding, a provider of embeddings, or what has a method index"
            raise InputError("not a ranker", ranker, "ToolRouter: ranker", hint)
        return ranker
    if ranker == "lexical":
        return None
    return open_ranker(ranker) if ranker in _KINDS else open_ranker("hybrid", ranker)
