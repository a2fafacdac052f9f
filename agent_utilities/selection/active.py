"""The active set, how channels spell it, and the threshold over which tools are deferred."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agent_utilities.errors import SelectionError

MAX_ACTIVE_NAMES = 512
MAX_NAME = 256
_MOST_BYTES = 6000
"""The most bytes that `written` returns: fewer than a channel may hold, so that its other values fit beside them."""
_PARTS = {
    "turns": re.compile(r"[0-9]{1,6}"),
    "of": re.compile(r"[0-9a-f]{8}"),
    "used": re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){0,511}"),
}
_HINT = "give names, such as git_log,git_diff, or the value of active as a result told it"


def read_active(text: str, source: str) -> Active:
    """Parse a value of `active`; `SelectionError` where it is malformed, or names too many tools."""
    listed, *parts = text.split(";")
    names = _names(listed, source)
    loaded = tuple(name for name, is_attached in names.items() if not is_attached)
    values: dict[str, str] = {}
    for part in parts:
        key, _, value = part.strip().partition("=")
        if key in values:
            raise SelectionError("a part of an active value given twice", part, source, _HINT)
        if key not in _PARTS or not _PARTS[key].fullmatch(value):
            raise SelectionError("not a part of an active value", part, source, _HINT)
        values[key] = value
    if "used" in values:
        loaded = _in_order(loaded, values["used"], source)
    return Active(tuple(names), loaded, int(values.get("turns", 0)), values.get("of", ""))


def check_active_count(n_names: int, source: str) -> None:
    """Raise `SelectionError` where a channel has more active names than it may."""
    if n_names > MAX_ACTIVE_NAMES:
        raise SelectionError("too many active tools", f"{n_names} names", source, f"give at most {MAX_ACTIVE_NAMES}")


def _names(listed: str, source: str) -> dict[str, bool]:
    """Return the listed names in order, each with whether a turn attached it."""
    check_active_count(listed.count(",") + 1, source)
    names: dict[str, bool] = {}
    for each in listed.split(","):
        is_attached = each.strip().startswith("+")
        if name := each.strip().removeprefix("+").strip():
            if len(name) > MAX_NAME:
                raise SelectionError("too long for a tool's name", name[:MAX_NAME], source, _HINT)
            names[name] = names.get(name, False) or is_attached
    return names


def _in_order(loaded: tuple[str, ...], used: str, source: str) -> tuple[str, ...]:
    places = [int(place) for place in used.split(".")]
    if sorted(places) != list(range(len(loaded))):
        raise SelectionError("not an order of the loaded tools", used, source, _HINT)
    return tuple(loaded[place] for place in places)


def written(active: Active) -> str:
    """Return the text that `read_active` parses; empty for an empty set. Where it is too long the oldest names go."""
    loaded = {name: place for place, name in enumerate(active.loaded)}
    kept: list[str] = []
    n_bytes = 0
    for name in reversed(active.names):
        if not _can_be_written(name):
            continue
        n_bytes += 6 + (len(name) if name.isascii() else 3 * len(name.encode()))
        if n_bytes > _MOST_BYTES or len(kept) == MAX_ACTIVE_NAMES:
            break
        kept.append(name)
    kept.reverse()
    parts = [",".join(name if name in loaded else f"+{name}" for name in kept)]
    came = [name for name in kept if name in loaded]
    used = sorted(range(len(came)), key=lambda place: loaded[came[place]])
    if used != sorted(used):
        parts.append(f"used={'.'.join(map(str, used))}")
    if active.n_turns:
        parts.append(f"turns={active.n_turns}")
    if active.words:
        parts.append(f"of={active.words}")
    return ";".join(parts) if any(parts) else ""


def _can_be_written(name: str) -> bool:
    return (  # else it would not be read back as it is
        0 < len(name) <= MAX_NAME
        and name == name.strip()
        and not name.startswith("+")
        and not {",", ";"} & set(name)
        and name.isprintable()
    )


def united(*actives: Active) -> Active:
    """Return the union of one channel's active sets; turns and words are those of the first that has any."""
    names = dict.fromkeys(name for active in actives for name in active.names)
    attached = {name for active in actives for name in active.attached}
    loaded = dict.fromkeys(name for active in actives for name in active.loaded if name not in attached)
    latest = next((active for active in actives if active.n_turns or active.words), actives[0])
    return Active(tuple(names), tuple(loaded), latest.n_turns, latest.words)


AUTO_OVER = 50
"""The threshold of `tool_search=auto`."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A value of `tool_search`: tools are deferred where more than `over` are permitted; None for never."""

    over: int | None = None

    @property
    def spelled(self) -> str:
        """The value as channels spell it."""
        return {None: "off", 0: "on", AUTO_OVER: "auto"}.get(self.over, f"auto:{self.over}")


OFF = Threshold()
ON = Threshold(0)
AUTO = Threshold(AUTO_OVER)


@dataclass(frozen=True, slots=True)
class Active:
    """The active set: deferred tools that were made visible.

    Args:
        names: all of them, in order of activation: a list grows at its end, for prompt caches.
        loaded: those that search, load or a call activated, least recently used first; turns attached the others,
            which are never evicted.
        words: digest of the last turn's words, see `digest_of_words`; empty before the first.
    """

    names: tuple[str, ...] = ()
    loaded: tuple[str, ...] = ()
    n_turns: int = 0
    words: str = ""

    @property
    def attached(self) -> tuple[str, ...]:
        """The names that turns attached, in order of activation."""
        return without(self.names, self.loaded)


NOTHING_ACTIVE = Active()
"""The active set of a new session, and of a request that brings none."""


def without(names: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    gone = frozenset(others)
    return tuple(name for name in names if name not in gone)
