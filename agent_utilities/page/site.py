"""The page's routes: each panel as HTML, CSV and JSON, and operators' actions."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from inspect import isawaitable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from cachetools import LRUCache
from fastmcp.server.auth import AuthProvider
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.page import overview, servers, tool, words
from agent_utilities.page.door import STATIC, Door
from agent_utilities.page.feature import N_KEPT, Seen, Tail
from agent_utilities.page.surface import SURFACE
from agent_utilities.page.usage import CALLS, PROMPT, SESSIONS, USAGE
from agent_utilities.runtime.shown import shown
from agent_utilities.runtime.waiting import is_failure, left_out
from agent_utilities.seam.host import CallRecord, Host, find
from agent_utilities.seam.panel import Action, PageError, Panel, Reader, Table

logger = logging.getLogger("agent_utilities.page")

FOLDER = Path(__file__).parent
_LOOK_S = 30.0
"""Seconds that a panel may take; one that its reader has gone from is not to go on for ever."""
_SIGN = r"[=+\-@\u2212\uff0b-\uff0d\uff1d\uff20\ufe62-\ufe6b]"
_FORMULA = re.compile(rf"""(^|[,;|"'\t\r\n])(?=[\s\u200b-\u200f\u2060\ufeff]*{_SIGN})|^(?=[\t\r\n])""")
"""Matches where a spreadsheet may see a formula begin, whatever character it takes for the end of a cell."""
_NOT_IN_FILES = re.compile(r"[^\w .-]", re.ASCII)
"""Matches what a header can't have in the name of a file, or a browser not in its folder."""

_PANELS = (overview.PANEL, SURFACE, PROMPT, servers.PANEL, CALLS, USAGE, words.PANEL, SESSIONS, tool.PANEL)
"""In the order of the navigation."""
PANELS: dict[str, Panel] = {each.name: each for each in _PANELS}


def application(host: Host, key: str, tail: Tail) -> ASGIApp:
    """Return the ASGI application of a server's page, behind its door.

    Args:
        key: the secret in the page's link.
        tail: the last calls.
    """
    return GZipMiddleware(Site(host, key, tail).door)


_LINES = re.compile(r"[\r\n]+")
_OF_FEATURES = frozenset(("tables", "buttons", "is_live"))
"""What a feature's panel shows: its tables; for each of them, and each row, buttons as (action, label, form); and
whether a browser looks again every few seconds."""
_OWN = ("part", "format", "table", "named")
"""Keys of a URL that belong to no selection, and that links do not pass on."""


class Site:
    """The page of one server, for readers whom its door has authorized."""

    def __init__(self, host: Host, key: str, tail: Tail) -> None:
        self._host, self._tail, self._templates = host, tail, _environment()
        self.door = Door(AuthContextMiddleware(self._router()), host, key, self._refused)
        offered = [each for each in host.offered(Panel) if isinstance(each, Panel)]
        self._panels = {**{each.name: each for each in offered}, **PANELS}
        """By name; one of a feature's stands in place of none of ours."""
        self._rows: LRUCache[tuple[int, str], str] = LRUCache(N_KEPT)
        """Calls rendered as HTML rows, by a call's number and where the application is mounted."""

    def _router(self) -> Router:
        return Router(
            [
                Mount(STATIC, StaticFiles(directory=FOLDER / "static")),
                Route("/page/calls/events", self._events),
                Route("/", self._panel),
                Route("/page", self._panel),
                Route("/page/{panel}", self._panel),
                Route("/page/tool", self._call, methods=["POST"]),
                Route("/page/{panel}/{action}", self._ask),
                Route("/page/{panel}/{action}", self._press, methods=["POST"]),
            ],
            default=self._nothing,
        )

    # -- pages -------------------------------------------------------------------------------------------------------

    async def _panel(self, request: HttpRequest) -> Response:
        """Show a panel: whole, a part of it (`?part=`), or its tables (`?format=csv&table=`, `?format=json`)."""
        # A selection after `/` is one to try, as links to it have it.
        at_root = "surface" if request.query_params else "overview"
        panel = self._panels.get(request.path_params.get("panel", at_root))
        if panel is None or not self._is_there(panel):
            return self._message(request, "There is no such panel.", 404)
        query = request.query_params
        request.state.tail = self._tail
        try:
            async with asyncio.timeout(_LOOK_S):
                values = await panel.look(self._host, request.state.reader, request)
            if panel.name not in PANELS:
                values = {"buttons": {}, "is_live": False} | {key: values[key] for key in _OF_FEATURES & values.keys()}
            if query.get("format") == "json":
                return _as_json(values["tables"])
            if query.get("format") == "csv":
                return _as_csv(values["tables"], query.get("table", next(iter(values["tables"]), "")))
            template = f"{panel.name}.html" if panel.name in PANELS else "tables.html"
            part = query.get("part", "")
            waiting = {} if part else await overview.badges(self._host, request.state.reader)
            return self._html(request, template, {**values, "panel": panel, "badges": waiting}, part=part)
        except AgentUtilitiesError as error:
            return self._message(request, str(error), 400, panel)
        except BaseException as error:
            if not is_failure(error):
                raise
            logger.exception("the panel %s can't be shown", panel.name)
            return self._message(request, "This panel can't be shown: it failed, see the server's log.", 500, panel)

    def _is_there(self, panel: Panel) -> bool:
        """Whether a server has anything for a panel; one of a feature's that fails takes no other along."""
        with left_out(panel):
            return panel.is_there(self._host)
        return False

    async def _events(self, request: HttpRequest) -> Response:
        module: Any = self._templates.get_template("call.html").module
        root = request.scope.get("root_path", "")

        def row(seen: Seen) -> str:  # rendered once for all readers
            if (written := self._rows.get((seen.n, root))) is None:
                written = self._rows[seen.n, root] = _LINES.sub("", module.row(seen, root))
            return written

        return self._tail.events(request.state.reader_now, request, row)

    async def _call(self, request: HttpRequest) -> Response:
        """Call a tool as the reader would; of one that may write ask first, with its arguments."""
        reader: Reader = request.state.reader
        if not reader.operates:
            return self._refused(request, 403, "Only operators call tools here.")
        try:
            outcome = await tool.call(self._host, reader, request, request.state.form)
        except AgentUtilitiesError as error:
            return self._message(request, str(error), 400, tool.PANEL)
        if isinstance(outcome, tool.Question):
            return self._html(request, "ask.html", {"panel": tool.PANEL, "call": outcome, "form": outcome.form})
        return self._html(request, "outcome.html", {"panel": tool.PANEL, "outcome": outcome})

    # -- actions ----------------------------------------------------------------------------------------------------

    def _action(self, request: HttpRequest) -> tuple[Panel, Action] | Response:
        panel = self._panels.get(request.path_params["panel"])
        action = panel.actions.get(request.path_params["action"]) if panel is not None else None
        reader: Reader = request.state.reader
        if not reader.operates:
            return self._refused(request, 403, "No rule of access that fits you gives the right 'page.operate'.")
        if panel is None or action is None:
            return self._message(request, "There is nothing of that name to do.", 404)
        return panel, action

    async def _ask(self, request: HttpRequest) -> Response:
        """Ask an operator to confirm an action."""
        if isinstance(match := self._action(request), Response):
            return match
        panel, action = match
        form = dict(request.query_params)
        try:
            asked: Any = action.ask(self._host, form)
            question = await asked if isawaitable(asked) else asked
        except AgentUtilitiesError as error:
            return self._message(request, str(error), 400, panel)
        return self._html(request, "ask.html", {"panel": panel, "question": question, "form": form, "call": None})

    async def _press(self, request: HttpRequest) -> Response:
        """Run a confirmed action, and record who ran it."""
        if isinstance(match := self._action(request), Response):
            return match
        panel, action = match
        reader, form = request.state.reader, request.state.form
        name, status = request.path_params["action"], 200
        try:
            outcome = await action.do(self._host, reader, form)
        except AgentUtilitiesError as error:
            outcome, status = str(error), 400
        logger.info("%s: %s %s by %s: %s", panel.name, name, urlencode(form), reader.name, outcome)
        said = {"issuer": reader.caller.issuer, "subject": reader.caller.subject, "arguments": form}
        if (record := find(self._host, CallRecord)) is not None:
            record.note("operated", {**said, "reason": outcome}, what=f"{panel.name} {name}")
        self._tail.operated(reader, f"{name} {' '.join(form.values())}", outcome, ok=status == 200)
        return self._message(request, outcome, status, panel)

    # -- answers -----------------------------------------------------------------------------------------------------

    def _html(
        self, request: HttpRequest, name: str, values: dict[str, Any], status: int = 200, part: str = ""
    ) -> Response:
        template = self._templates.get_template(name)
        reader = getattr(request.state, "reader", None)
        order = dict.fromkeys((*PANELS, *self._panels))
        panels = [self._panels[name] for name in order] if reader else []
        there = [each for each in panels if each.title and self._is_there(each)]
        context = {
            "panels": there,
            "panel": None,
            "badges": {},
            "server": self._host.name if reader else "",
            "reader": reader,
            "has_login": find(self._host, AuthProvider) is not None,
            "form_key": getattr(request.state, "form_key", ""),
            "query": urlencode([pair for pair in request.query_params.multi_items() if pair[0] not in _OWN]),
            "root": request.scope.get("root_path", ""),
            **values,
        }
        if part:
            if part not in template.blocks:
                return self._message(request, "There is no such part.", 404)
            return HTMLResponse("".join(template.blocks[part](template.new_context(context))))
        return HTMLResponse(template.render(context), status)

    def _message(self, request: HttpRequest, text: str, status: int, panel: Panel | None = None) -> Response:
        return self._html(request, "told.html", {"told": text, "status": status, "panel": panel}, status)

    def _refused(self, request: HttpRequest, status: int, why: str) -> Response:
        """Return the page for a browser that is refused: why, and how to log in."""
        takes = "key" if self.door.takes_key else "token" if find(self._host, AuthProvider) is not None else ""
        return self._html(
            request, "door.html", {"why": why, "takes": takes, "status": status, "issuer": self.door.has_issuer}, status
        )

    async def _nothing(self, scope: Any, receive: Any, send: Any) -> None:
        await self._message(HttpRequest(scope), "There is nothing here.", 404)(scope, receive, send)


# -- rendering --------------------------------------------------------------------------------------------------------


def _visible(value: Any) -> Any:
    """Return a text whose control characters, and those that change the writing direction, are escaped."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return (
        value if value.isprintable() and value.isascii() else "\n".join(shown(line, None) for line in value.split("\n"))
    )


def _n(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}".replace("-0.000", "0.000")


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _environment() -> Environment:
    """Return the templates' environment: every text is escaped, so that none can hide or act."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        finalize=_visible,
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters.update(n=_n, at=_at)
    return made


def _as_json(tables: Mapping[str, Table]) -> Response:
    """Return all tables of a panel, each as a list of objects."""
    rows = {name: [dict(zip(table.columns, row, strict=True)) for row in table.rows] for name, table in tables.items()}
    return JSONResponse(rows)


def _as_csv(tables: Mapping[str, Table], name: str) -> Response:
    """Return one table of a panel as CSV in which a spreadsheet sees no formula.

    Raises:
        PageError: there is no table of that name.
    """
    if name not in tables:
        raise PageError(f"no table of that name: {name!r}; there are {', '.join(tables) or 'none'}")
    written = io.StringIO()
    rows = csv.writer(written, quoting=csv.QUOTE_ALL)
    for row in (tables[name].columns, *tables[name].rows):
        rows.writerow([_cell(value) for value in row])
    headers = {"content-disposition": f'attachment; filename="{_NOT_IN_FILES.sub("_", name)}.csv"'}
    return Response(written.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _cell(value: Any) -> Any:
    text = json.dumps(value) if isinstance(value, list | tuple | dict) else value
    return _FORMULA.sub(r"\1'", text) if isinstance(text, str) else text
