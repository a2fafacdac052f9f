"""Takes a listing item by item, so that one that is no component loses no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_types.methods import validate_server_result
from pydantic import ValidationError

_FIELDS = {
    "tools/list": ("tools", "tool"),
    "prompts/list": ("prompts", "prompt"),
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resourceTemplates", "resource template"),
}
_OLDEST_CHECKED = "2025-11-25"


class Listed:
    """Drops from listings what is no component, and remembers a line for each.

    Args:
        version: gives the protocol version that was negotiated.
    """

    def __init__(self, version: Callable[[], str | None]) -> None:
        self._version = version
        self.problems: list[str] = []
        """A line for each item that was dropped, with its name where it has one."""

    def taken(self, method: str, raw: dict[str, Any]) -> dict[str, Any]:
        """Return a result as it came, or without those of its items that are no component.

        Args:
            method: that it answers; anything but a listing is returned as it is.
            raw: the result.
        """
        if method not in _FIELDS:
            return raw
        field, kind = _FIELDS[method]
        items = raw.get(field)
        if not isinstance(items, list) or not self._why_not(method, raw):
            return raw
        kept = []
        for item in items:
            why_not = self._why_not(method, {**raw, field: [item]})
            if why_not:
                self._drop(kind, item, why_not)
            else:
                kept.append(item)
        return {**raw, field: kept}

    def _why_not(self, method: str, raw: dict[str, Any]) -> str:
        try:
            validate_server_result(method, self._version() or _OLDEST_CHECKED, raw)
        except KeyError:
            return ""
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            where = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
            return f"{where}: {first['msg']}"
        return ""

    def _drop(self, kind: str, item: object, why_not: str) -> None:
        name = item.get("name") if isinstance(item, dict) else None
        self.problems.append(f"{kind} {name!r} is left out: {why_not}"[:300])
