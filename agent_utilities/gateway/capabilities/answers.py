"""The `capability` tool, with which a model lists, discovers and switches capabilities; made for each caller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult
from mcp_types import ToolAnnotations

from agent_utilities.catalog.model import entry
from agent_utilities.errors import shortened
from agent_utilities.gateway.capabilities.caller import CallerCapabilities, caller_capabilities
from agent_utilities.gateway.capabilities.model import Capabilities, enable
from agent_utilities.gateway.capabilities.switching import Switching
from agent_utilities.runtime.waiting import beside
from agent_utilities.seam.feature import ALWAYS_LOADED, Answer, OwnTool
from agent_utilities.seam.request import Request
from agent_utilities.search.entry_tools import unknown_arguments
from agent_utilities.selection.channels import META_KEY
from agent_utilities.selection.model import nearest

CAPABILITY = "capability"
"""The tool's name."""
AS_JUDGED = entry("tool", CAPABILITY, read_only=True)
"""The tool as bounds judge it; the tools that it switches on are judged one by one."""
ACTIONS = ("list", "discover", "enable", "disable")
_N_DOMAINS = 20


def capability_tool(capabilities: Capabilities, usable: frozenset[str], answer: Answer) -> OwnTool:
    """Return the tool for a caller who may use some of the capabilities."""
    domains = sorted({domain for name in usable for domain in capabilities.by_name[name].domains})
    return OwnTool(
        name=CAPABILITY,
        description=_description(domains, len(usable)),
        parameters=_PARAMETERS,
        annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True),
        meta=dict(ALWAYS_LOADED),
        answer=answer,
        purpose="switches capabilities on and off",
    )


def _description(domains: Sequence[str], n_usable: int) -> str:
    """Return the tool's description; it does not depend on what is on, for the sake of prompt caches."""
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

N_DISCOVERED = 5
"""The most capabilities that `discover` returns."""
LEAST_DISCOVERED = 0.2
"""The least score of a capability that it returns."""
_N_LINES = 100
"""The most lines of an installer that are queued as progress."""
_N_SENT_LINES = 1000
"""The most lines of it that are sent in all."""
WAIT_S = 5.0
"""Seconds that `enable` waits for servers that never listed anything; slower servers' tools are listed later."""


class CapabilityAnswers:
    """Answers calls of the `capability` tool."""

    def __init__(self, switching: Switching) -> None:
        self._switching = switching

    async def answer(self, arguments: Mapping[str, Any], request: Request) -> ToolResult:
        """Answer a call; `ToolError` where the arguments are wrong, or there is no such capability for the caller."""
        if unknown := unknown_arguments(arguments, _PARAMETERS):
            raise ToolError(f"no such argument: {shortened(repr(unknown[0]))}; it takes action, name and intent")
        on = caller_capabilities(request)
        match arguments.get("action"):
            case "list":
                return await self._list(on)
            case "discover":
                return await self._discover(arguments, on)
            case "enable":
                return await self._enable(self._named(arguments, on), request, on)
            case "disable":
                return await self._disable(self._named(arguments, on), request, on)
            case action:
                raise ToolError(f"'action' is {shortened(repr(action))}; use one of {', '.join(ACTIONS)}")

    async def _list(self, on: CallerCapabilities) -> ToolResult:
        there = [each for name, each in self._switching.offer.capabilities.by_name.items() if name in on.usable]
        missing = await self._switching.toolchains.missing(there)
        rows = [self._row(each.name, on, missing.get(each.name)) for each in there]
        lines = [_line(row) for row in rows]
        return ToolResult("\n".join(lines) or "there are no capabilities", {"capabilities": rows}, _meta(on))

    async def _discover(self, arguments: Mapping[str, Any], on: CallerCapabilities) -> ToolResult:
        intent = _text(arguments, "intent", "say what is to be done, such as 'run SQL on our database'")
        route = await self._switching.router.route(intent, on.usable)
        best = [(name, score) for name, score in route.scores if score >= LEAST_DISCOVERED][:N_DISCOVERED]
        rows = [{**self._row(name, on), "score": round(score, 3)} for name, score in best]
        lines = [f"{row['score']:.2f}  {_line(row)}" for row in rows]
        text = "\n".join(lines) or f"no capability is near; {route.cause or 'use action=list to see all'}"
        return ToolResult(text, {"capabilities": rows}, _meta(on))

    async def _enable(self, name: str, request: Request, on: CallerCapabilities) -> ToolResult:
        if name in on.fixed:
            return await self._result(request, on, name, f"{name} is always on")
        if why := self._switching.offer.servers.unavailable.get(name):
            raise ToolError(f"{name} can't be switched on: {why}")
        notices = list(await _satisfied(self._switching, name))
        active = enable(on.now(request), name, self._switching.offer.most)
        if name not in active:
            raise ToolError(f"{name} can't be switched on: no capability may be; the operator set the most to 0")
        on = await self._switching.changed(request, on, active, "tool")
        if name in on.added:
            notices += await self._switching.seen(name, WAIT_S)
        done = f"{name} is on" if name in on.added else f"{name} was on already"
        return await self._result(request, on, name, done, notices)

    async def _disable(self, name: str, request: Request, on: CallerCapabilities) -> ToolResult:
        if name in on.fixed:
            raise ToolError(f"{name} is always on: the operator switched it on at the start")
        active = tuple(each for each in on.now(request) if each != name)
        on = await self._switching.changed(request, on, active, "tool")
        done = f"{name} is off" if on.removed else f"{name} was off already"
        return await self._result(request, on, name, done)

    async def _result(
        self, request: Request, on: CallerCapabilities, name: str, done: str, notices: Sequence[str] = ()
    ) -> ToolResult:
        """Return the answer for a capability that was switched, with those that were evicted for it."""
        n_tools = await self._switching.tell_changed(request, on)
        gone = [each for each in on.removed if each != name]
        lines = [done, *(f"{each} went off for it: it was used least recently" for each in gone), *notices]
        lines.append(f"there are {n_tools} tools now")
        structured = {"active": list(on.active), "evicted": gone, "tools": n_tools, "notices": list(notices)}
        if request.session is None:
            lines.append(f"send x-mcp-capabilities: {on.written or 'none'} with later requests to have the same")
        return ToolResult("; ".join(lines), structured, _meta(on))

    def _named(self, arguments: Mapping[str, Any], on: CallerCapabilities) -> str:
        name = _text(arguments, "name", "give the name of a capability")
        if name in on.usable:
            return name
        near = nearest(name, on.usable)
        hint = f"did you mean {near}?" if near else "action=list shows those there are"
        raise ToolError(f"no capability is named {shortened(repr(name))}; {hint}")

    def _row(self, name: str, on: CallerCapabilities, missing: Sequence[str] | None = None) -> dict[str, Any]:
        capability = self._switching.offer.capabilities.by_name[name]
        about, is_on = capability.description or capability.title, name in on.active or name in on.fixed
        row: dict[str, Any] = {"name": name, "about": about, "on": is_on}
        if why := self._switching.offer.servers.unavailable.get(name):
            row["unavailable"] = why
        if missing:
            row["missing"] = missing
        return row


async def _satisfied(switching: Switching, capability: str) -> Sequence[str]:
    """Install a capability's requirements; return notices, and report the installers' output as progress."""
    lines: asyncio.Queue[str] = asyncio.Queue(_N_LINES)

    def on_line(line: str) -> None:
        if not lines.full():  # a caller who does not read holds up no installer
            lines.put_nowait(line)

    async with beside(_report(lines)):
        return await switching.toolchains.satisfy(switching.offer.capabilities.by_name[capability], on_line)


async def _report(lines: asyncio.Queue[str]) -> None:
    for n in range(1, _N_SENT_LINES + 1):
        await get_context().report_progress(n, message=await lines.get())


def _line(row: Mapping[str, Any]) -> str:
    on = " (on)" if row["on"] else ""
    about = f": {row['about']}" if row["about"] else ""
    why = f" [can't be switched on: {row['unavailable']}]" if "unavailable" in row else ""
    missing = f" [missing: {'; '.join(row['missing'])}]" if "missing" in row else ""
    return f"{row['name']}{on}{about}{why}{missing}"


def _text(arguments: Mapping[str, Any], key: str, hint: str) -> str:
    value = arguments.get(key)
    if not isinstance(value, str) or not value.strip():
        what = "is missing" if value is None else f"is {shortened(repr(value))}"
        raise ToolError(f"{key!r} {what}; {hint}")
    return value.strip()


def _meta(on: CallerCapabilities) -> dict[str, Any]:
    return {META_KEY: {"capabilities": on.summary()}}
