"""The feature that makes invisible text of servers visible, or leaves it out."""

from __future__ import annotations

from typing import Any, Literal

from cachetools import LRUCache

from agent_utilities.protocol.fit import KINDS
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.request import Call, Request

_N_DEFINITIONS = 4096
"""The most definitions that are remembered with what became of them."""
_WITH_TEXT = ("resources/read", "prompts/get", "tasks/get", "tasks/result")
"""Methods beside calls whose results are texts of servers."""


class Invisible(Feature):
    """Makes invisible text of servers visible, or leaves it out: in definitions, results, resources and prompts."""

    name = "invisible"
    before = ("results",)

    def __init__(self) -> None:
        self._cached: LRUCache[str, tuple[dict[str, Any], dict[str, Any], int]] = LRUCache(_N_DEFINITIONS)

    def _definition(self, item: dict[str, Any], key: str) -> tuple[dict[str, Any], int]:
        from agent_utilities.results.invisible import in_definition

        before, changed, n = self._cached.get(str(item[key]), (None, item, 0))
        if before != item:
            changed, n = in_definition(item, self._mode)
            self._cached[str(item[key])] = dict(item), changed, n
        return changed, n

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        from agent_utilities.results.invisible import in_result

        if (kind := KINDS.get(request.method)) is not None:
            items = [self._definition(item, kind.key) for item in result[kind.field]]
            changed, n = {**result, kind.field: [item for item, _ in items]}, sum(n for _, n in items)
        elif call is not None or request.method in _WITH_TEXT:
            changed, n = in_result(result, self._mode)
        else:
            return result
        return {**changed, "_meta": {**(result.get("_meta") or {}), "agent-utilities/invisible": n}} if n else result

    @property
    def _mode(self) -> Literal["show", "drop"]:
        return "drop" if self.host.operator.settings.invisible == "drop" else "show"
