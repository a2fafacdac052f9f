"""The rooms of the package, as the contract in `pyproject.toml` has them, and the imports between them."""

from __future__ import annotations

import re
import tomllib

from tests.architecture.gauges import ROOT, imported, sources

_LEFT_OUT = {"errors", "runtime"}


def rooms() -> list[str]:
    """Return the rooms from the highest floor to the lowest."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return [name.removeprefix("agent_utilities.") for layer in layers for name in re.split(r" [|:] ", layer)]


def imports() -> set[tuple[str, str]]:
    """Return which room imports which."""
    found = set()
    for file, source in sources().items():
        room = file.partition("/")[0].removesuffix(".py")
        for name in imported(source):
            package, _, rest = name.partition(".")
            if package == "agent_utilities" and rest:
                found.add((room, rest.partition(".")[0]))
    return {(one, other) for one, other in found if one != other and one != "__init__"}


def house() -> str:
    """The diagram of the rooms."""
    order = {room: floor for floor, room in enumerate(rooms())}
    arrows = {(one, other) for one, other in imports() if not _LEFT_OUT & {one, other}}
    down = {(one, other) for one, other in arrows if order[one] < order[other]}
    direct = {(one, other) for one, other in down if not _leads(one, other, down - {(one, other)})}
    lines = ["```mermaid", "graph TD"]
    lines += [f"  {_node(one)} --> {_node(other)}" for one, other in sorted(direct, key=lambda pair: _at(pair, order))]
    lines += [f"  {_node(one)} -.-> {_node(other)}" for one, other in sorted(arrows - down)]
    return "\n".join([*lines, "```"])


def _leads(one: str, other: str, arrows: set[tuple[str, str]]) -> bool:
    return any(to == other or _leads(to, other, arrows) for by, to in arrows if by == one)


def _at(pair: tuple[str, str], order: dict[str, int]) -> tuple[int, int]:
    return order[pair[0]], order[pair[1]]


def _node(room: str) -> str:
    # Mermaid has a word of its own for one of them.
    return f"{room}_[{room}]" if room == "graph" else room
