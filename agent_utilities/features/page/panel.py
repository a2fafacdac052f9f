"""What a panel of the page is: values for one template, and what can be done there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request as HttpRequest

from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.mcp.agent_server import AgentServer
from agent_utilities.mcp.sessions import Caller


class PageError(AgentUtilitiesError, ValueError):
    """Something that can't be shown or done; whoever asked for it is told why."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who looks at the page.

    Args:
        caller: as requests of theirs are judged.
        operates: whether they may do what is the operator's, and see what is denied to others: who has the page's link
            on a loopback address, or the right `page.operate`.
    """

    caller: Caller
    operates: bool

    @property
    def name(self) -> str:
        """Who they are, for the record: the subject and its issuer, or whoever has the link."""
        return f"{self.caller.subject} ({self.caller.issuer})" if self.caller.subject else "whoever has the page's link"


@dataclass(frozen=True, slots=True)
class Table:
    """Plain values in rows, which are also had as CSV and JSON."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


Form = Mapping[str, str]
Look = Callable[["AgentServer", Reader, HttpRequest], Awaitable[dict[str, Any]]]
"""Returns what a panel's template is given, under `tables` its `Table`s by name; nothing its reader may not know."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that an operator can do on a panel, once they have said yes.

    Args:
        ask: returns the question that is put first.
        do: does it, and returns what was done.
    """

    ask: Callable[[AgentServer, Form], str]
    do: Callable[[AgentServer, Reader, Form], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its route, its template `NAME.html`, its query and its actions.

    Args:
        name: in the URL.
        title: in the navigation.
        look: what it shows.
        actions: by name; operators' alone.
        is_there: whether a server has anything for it.
    """

    name: str
    title: str
    look: Look
    actions: Mapping[str, Action] = field(default_factory=dict)
    is_there: Callable[[AgentServer], bool] = lambda host: True
