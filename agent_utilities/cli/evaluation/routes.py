"""`agent-utilities capabilities route`: which capability each of some messages calls for, by a gateway's own code."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from agent_utilities.capabilities.gate import Route
from agent_utilities.capabilities.tap import folder_named, read_capabilities
from agent_utilities.cli.evaluation.data import rows, write_rows
from agent_utilities.errors import InputError
from agent_utilities.resolution.resolver import open_rankers
from agent_utilities.settings import Settings
from agent_utilities.settings_file import settings_of


class Message(BaseModel):
    """A message, and the capability that it calls for where that is known; None for none of them."""

    intent: str
    label: str | None = None


def route_messages(folder: Path, rows_file: Path | None, out: Path | None, *, by_words: bool = False) -> None:
    """Write where each message leads, and print how often that is right where it is known.

    Of `rows_file` each line has `intent` and perhaps `label`: a capability's name, or null for none. `out` is
    written, where there is one.
    """
    triggers = read_capabilities([folder_named(str(folder))]).triggers
    if not triggers:
        hint = "name a folder of capabilities that has triggers"
        raise InputError("no capability with triggers", str(folder), "--folder", hint)
    if rows_file is None:
        hint = 'name JSON lines such as {"intent": "list my pods", "label": "kubernetes"} under --queries'
        raise InputError("no messages", str(folder), "option --capabilities", hint)
    messages = [message for _, message in rows(rows_file, Message)]
    settings = settings_of(os.environ)
    if by_words:
        settings = settings.model_copy(update={"ranker": "lexical"})
    cause, routes = asyncio.run(_route_all(triggers, messages, settings))
    if out is not None:
        pairs = zip(messages, routes, strict=True)
        told = [{"intent": each.intent, "scores": route.scores, "activated": route.activated} for each, route in pairs]
        write_rows(out, told, "--out")
    if cause:
        print(f"note: {cause}")
    for line in measured(messages, routes):
        print(line)


def measured(messages: Sequence[Message], routes: Sequence[Route]) -> list[str]:
    """Return how often routes are right where that is known, a line each for people; nothing where it never is."""
    pairs = list(zip(messages, routes, strict=True))
    calls = [(message.label, route) for message, route in pairs if message.label]
    others = [route for message, route in pairs if "label" in message.model_fields_set and not message.label]
    outcomes = {
        "top-1": [bool(route.scores) and route.scores[0][0] == label for label, route in calls],
        "hit by the gate": [route.activated == label for label, route in calls],
        "another activated": [route.activated not in (label, None) for label, route in calls],
        "abstained by the gate": [route.activated is None for route in others],
    }
    return [
        f"{what:24}{sum(held) / len(held):.3f}  ({sum(held)} of {len(held)})" for what, held in outcomes.items() if held
    ]


async def _route_all(
    triggers: Mapping[str, tuple[str, ...]], messages: Sequence[Message], settings: Settings
) -> tuple[str, list[Route]]:
    """Return why messages are routed by less than was asked for, if so, and where each leads."""
    router = open_rankers(settings).of_capabilities()
    try:
        router.use(triggers)
        await router.wait_until_ready()
        routes = [await router.route(message.intent, frozenset(triggers)) for message in messages]
        return router.cause, routes
    finally:
        router.close()
