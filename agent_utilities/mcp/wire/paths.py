"""Refusing a request whose path names nothing that its caller may learn of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from starlette.requests import Request
from starlette.types import Scope

from agent_utilities.catalog.model import KINDS, entry
from agent_utilities.mcp.sessions import caller_of
from agent_utilities.mcp.wire.middleware import unknown_names
from agent_utilities.selection.caller import SOURCE, PathError, PathSelection, read_path
from agent_utilities.selection.merge import merge
from agent_utilities.selection.model import NameSet, Selection

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer


async def check_path(host: AgentServer, path: PathSelection, scope: Scope) -> None:
    """Refuse a path that names nothing known: what the operator denies reads like what never was (law L1).

    Who may not be served at all is told neither; the endpoint's own auth answers them.

    Raises:
        PathError: its toolsets name nothing that this caller may learn of.
        SelectionError: they can't be read.
    """
    names = tuple(pair for pair in path if pair[0] == "toolsets")
    if not names or not _is_admitted(host, scope):
        return
    selection = read_path(names)
    if (grant := host.callers.grant_of(caller_of(Request(scope)))) is not None:
        selection = merge(selection, grant.bounds)
    if not _names_certain(selection.asked) and not await _names_any(host, selection):
        await _refuse(host, names[0][1], selection)


async def _names_any(host: AgentServer, selection: Selection) -> bool:
    """Whether a component of any kind is permitted under what the operator gave and these names."""
    surface = host.surface
    verdict = surface.verdict(selection, shapes_lists=False)
    for kind in KINDS:
        with surface.under_verdict(verdict):
            catalog = await host.catalog(kind)
        if (await surface.decide_in_turns(kind, catalog, verdict)).permitted:
            return True
    to_come = (entry("tool", "", tags=[name], read_only=True) for name in host.features.gathered("toolsets_to_come"))
    return any(verdict.bounds.refusal(toolset) is None for toolset in to_come)


async def _refuse(host: AgentServer, toolsets: str, selection: Selection) -> NoReturn:
    surface = host.surface
    verdict = surface.verdict(selection, shapes_lists=False)
    decision = await surface.decide_in_turns("tool", await host.catalog("tool"), verdict)
    with surface.under_verdict(verdict):  # what a rule denies this caller counts as little as what nobody may
        unknown = await unknown_names(host, decision, "tool")
    near = [name for name in unknown.values() if name is not None]
    hint = f"did you mean {near[0]!r}?" if near else "leave /x/… out to see what there is"
    raise PathError("the path names nothing that is known", toolsets, SOURCE, hint)


def _is_admitted(host: AgentServer, scope: Scope) -> bool:
    auth = host.auth
    if auth is None:
        return True
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        return False
    granted = scope["auth"].scopes
    return all(needed in granted for needed in auth.required_scopes or ())


def _names_certain(selection: Selection) -> bool:
    """Whether the names are `all` or `none`, which every server knows."""
    values = [setting.value for _, setting in selection.slots]
    return all(isinstance(value, NameSet) and (value.everything or not value.toolsets) for value in values)
