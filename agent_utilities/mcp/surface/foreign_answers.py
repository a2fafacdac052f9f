"""Answers that an author's middleware gives by itself: it runs before any bound is held, and is judged after it."""

from __future__ import annotations

import sys
from contextvars import ContextVar, Token
from functools import cache
from typing import Any, cast

from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.dereference import DereferenceRefsMiddleware

from agent_utilities.catalog.model import ComponentKind
from agent_utilities.mcp.own_tool import OwnTool
from agent_utilities.mcp.surface.components import Component, name_of
from agent_utilities.visibility.decision import Decision

_GENERIC_HOOKS = ("__call__", "on_message", "on_request")
_LIST_HOOKS: dict[ComponentKind, str] = {
    "tool": "on_list_tools",
    "prompt": "on_list_prompts",
    "resource": "on_list_resources",
    "template": "on_list_resource_templates",
}


def may_answer_lists(middleware: object, kind: ComponentKind) -> bool:
    """Whether middleware has a hook that lists of a kind pass through, and so could answer them itself.

    FastMCP's own that resolves references is on every server, and does nothing else.
    """
    return _has_hook(cast(Any, type(middleware)), kind)


def reads_lists(middleware: object, kind: ComponentKind) -> bool:
    """Whether middleware has a hook of its own for lists of a kind: mostly to leave something out."""
    own = getattr(type(middleware), _LIST_HOOKS[kind], None)
    return not isinstance(middleware, DereferenceRefsMiddleware) and own is not getattr(Middleware, _LIST_HOOKS[kind])


@cache
def _has_hook(middleware: Any, kind: ComponentKind) -> bool:
    hooks = (*_GENERIC_HOOKS, _LIST_HOOKS[kind])
    return middleware is not DereferenceRefsMiddleware and any(
        getattr(middleware, hook, None) is not getattr(Middleware, hook) for hook in hooks
    )


def is_response_cache(middleware: object) -> bool:
    """Whether middleware is FastMCP's response cache, or one made of it; its module is not imported to tell."""
    module = sys.modules.get("fastmcp.server.middleware.caching")
    return module is not None and isinstance(middleware, module.ResponseCachingMiddleware)


class Core:
    """A block that tells whether the server itself answered, or middleware before it did."""

    __slots__ = ("_token", "has_answered")

    def __enter__(self) -> Core:
        self.has_answered = False
        self._token: Token[Core | None] = _core.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _core.reset(self._token)

    @staticmethod
    def answered() -> None:
        """Tell the innermost block that the server itself answered, under the verdict in force."""
        if (core := _core.get()) is not None:
            core.has_answered = True


_core: ContextVar[Core | None] = ContextVar("agent_utilities_core", default=None)


def is_shown(kind: ComponentKind, component: Component, decision: Decision, *, is_foreign: bool) -> bool | None:
    """Return whether a component of a list that went through middleware may be shown; None where it is not decided.

    Args:
        kind: what is listed.
        component: as middleware left it.
        decision: on what the server itself lists; it may have no component of this name.
        is_foreign: whether middleware answered itself; preferences are then held here too.
    """
    if isinstance(component, OwnTool):
        return True  # a feature's, in no catalog
    kept = decision.visible_keys if is_foreign else decision.permitted_keys
    name, version = name_of(kind, component), component.version
    versions = decision.versions.get(name)
    if versions is None:
        return None
    return all((name, each) in kept for each in ([version] if version in versions else versions))
