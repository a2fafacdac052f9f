"""Reading of what features answer: of the kind that a method returns, as JSON, and only what it may change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from starlette.routing import BaseRoute

from agent_utilities.protocol.fit import KINDS


def of_kind(kind: Any, answer: Any) -> Any:
    """Return an answer of a kind; raises `TypeError` for any other."""
    if not isinstance(answer, kind):
        raise TypeError(f"it returned {type(answer).__name__}")
    return answer


def joined(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one mapping of several, later keys over earlier ones."""
    return {key: value for part in parts for key, value in part.items()}


def listed(method: str, result: Mapping[str, Any]) -> list[Any] | None:
    """Return the names or URIs in a list, in order; None for any other result."""
    kind = KINDS.get(method)
    return None if kind is None else [item[kind.key] for item in result[kind.field]]


def new_in(changed: Mapping[str, Any], result: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the values of a result that a feature has put in; of a list or an object those in it."""
    for key, value in changed.items():
        before = result.get(key)
        if isinstance(value, list) and isinstance(before, list):
            same = set(map(id, before))
            yield from (each for each in value if id(each) not in same)
        elif value is not before and value != before:
            yield value


def as_json(part: Any) -> dict[str, Any]:
    """Return a mapping as it is written, apart from the feature's own; what can't be written fails here."""
    text = json.dumps(of_kind(Mapping, part), allow_nan=False, ensure_ascii=False)
    text.encode()  # lone surrogates are not
    return dict(json.loads(text))


as_text = partial(of_kind, str | None)
as_list = partial(of_kind, list | tuple)


def as_routes(routes: Any) -> list[BaseRoute]:
    """Return routes; raises `TypeError` for what is none."""
    return [of_kind(BaseRoute, route) for route in as_list(routes)]
