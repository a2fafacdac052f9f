"""Which endpoint a request's path is for, and the selection that stands after it."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import quote, unquote_to_bytes

from starlette.types import Scope

from agent_utilities.selection.caller import READ_ONLY, SOURCE, TOOLSETS
from agent_utilities.selection.parse import utf8_text


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
