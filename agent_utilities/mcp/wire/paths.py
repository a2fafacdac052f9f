"""Which endpoint a request's path is for, and the selection that stands after it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope

from agent_utilities.catalog.model import KINDS, entry
from agent_utilities.mcp.wire.summary import unknown_names
from agent_utilities.selection.caller import READ_ONLY, SOURCE, TOOLSETS, PathError, PathSelection
from agent_utilities.selection.model import NameSet, Selection
from agent_utilities.selection.parse import utf8_text

if TYPE_CHECKING:
    from agent_utilities.mcp.agent_server import AgentServer


async def check_path(host: AgentServer, path: PathSelection, scope: Scope) -> None:
    """Refuse a path that names nothing known: what the operator denies reads like what never was (law L1).

    Who may not be served at all is told neither; the endpoint's own auth answers them.

    Args:
        host: the server that is asked.
        path: what it asks for.
        scope: the request's.

    Raises:
        PathError: its toolsets name nothing that this caller may learn of.
        SelectionError: they can't be read.
    """
    if path.toolsets is None or not _is_admitted(host, scope):
        return
    selection = path.names()
    if not _names_certain(selection) and not await _names_any(host, selection):
        await _refuse(host, path.toolsets, selection)


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
    near = [name for name in (await unknown_names(host, decision, "tool")).values() if name is not None]
    hint = f"did you mean {near[0]!r}?" if near else "leave /x/… out to see what there is"
    raise PathError("the path names nothing that is known", toolsets, SOURCE, hint)


def _is_admitted(host: AgentServer, scope: Scope) -> bool:
    """Whether the endpoint's own auth will let the caller in."""
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


class Endpoints:
    """The paths whose requests bear selections.

    Args:
        plain: paths that take no selection of their own after them.
        scoped: paths that do, such as `/mcp` in `/mcp/x/git`.
    """

    def __init__(self, plain: Collection[str], scoped: Collection[str]) -> None:
        self._own_path = {path.rstrip("/"): path for path in (*plain, *scoped)}
        self._scoped = sorted({path.rstrip("/") for path in scoped}, key=len, reverse=True)

    def find(self, scope: Scope) -> tuple[str, list[str]] | None:
        """Return the endpoint of a request, without a slash at its end, and the segments after it, percent-decoded.

        None where the request is for none.

        Raises:
            SelectionError: a segment after it is not UTF-8.
        """
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root)
        if (stripped := path.rstrip("/")) in self._own_path:
            return stripped, []
        for endpoint in self._scoped:
            rest = path.removeprefix(endpoint)
            if path.startswith(endpoint) and rest.startswith((f"/{TOOLSETS}", f"/{READ_ONLY}")):
                return endpoint, _segments(scope, root + endpoint, rest)
        return None

    def routed(self, scope: Scope, endpoint: str) -> Scope:
        """Return the scope of a request as it is for the endpoint alone."""
        path = scope.get("root_path", "") + self._own_path[endpoint]
        return {**scope, "path": path, "raw_path": quote(path).encode()}


def _segments(scope: Scope, before: str, rest: str) -> list[str]:
    """Return the segments after an endpoint; from the bytes that were sent, where an encoded slash is no separator."""
    sent = scope.get("raw_path")
    n_before = before.count("/")
    if sent is not None:
        segments = sent.split(b"?")[0].split(b"/")
        if [unquote_to_bytes(segment) for segment in segments[: n_before + 1]] == before.encode().split(b"/"):
            return [utf8_text(unquote_to_bytes(segment), SOURCE) for segment in segments[n_before + 1 :]]
    return rest.split("/")[1:]
