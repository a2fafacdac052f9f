"""The page's panel of calls that wait for a yes, for who operates the server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from agent_utilities.seam.host import Host
from agent_utilities.seam.panel import Action, Form, PageError, Panel, Reader, Table

if TYPE_CHECKING:
    from agent_utilities.approvals.feature import Approvals
    from agent_utilities.approvals.store import Answer, Question

_MOST = 100
"""The most questions that the panel shows; further ones follow as these are answered."""
_OVER = "it waits no more: somebody has answered it, it was given up, or the server began anew"
_COLUMNS = ("since", "caller", "tool", "server", "arguments", "sha256", "id")


def panel(feature: Approvals) -> Panel:
    """Return the panel, with a button for each answer."""

    async def look(_: Host, reader: Reader, __: Any) -> dict[str, Any]:
        questions, n_waiting = await feature.store.waiting(_MOST) if reader.operates else ([], 0)
        name = "waiting" if n_waiting <= _MOST else f"waiting, the first of {n_waiting:,}"
        rows = [
            (_since(each), each.who, each.tool, each.server, each.shown, each.digest, each.id) for each in questions
        ]
        buttons = [[(answer, answer.capitalize(), {"id": each.id}) for answer in ("yes", "no")] for each in questions]
        return {"tables": {name: Table(_COLUMNS, rows)}, "buttons": {name: buttons}, "is_live": True}

    def asks(answer: Answer) -> Action:
        async def ask(_: Host, form: Form) -> str:  # what it is about comes from the store: a link may say anything
            question = await feature.store.by_id(form.get("id", ""))
            if question is None:
                raise PageError(_OVER)
            what = f"{question.tool} of {question.server}, for {question.who}"
            return f"{'Have' if answer == 'yes' else 'Refuse'} {what}{' called' * (answer == 'yes')}?\n{question.shown}"

        return Action(cast(Any, ask), _answering(feature, answer))

    return Panel("approvals", "Approvals", look, {"yes": asks("yes"), "no": asks("no")})


def _answering(feature: Approvals, answer: Answer) -> Callable[[Host, Reader, Form], Any]:
    async def do(_: Host, reader: Reader, form: Form) -> str:
        question = await feature.store.by_id(form.get("id", ""))
        if question is not None and question.by_other:
            _check_other(question, reader)
        if question is None or await feature.answer(question.id, answer, "page", reader.caller.person) is None:
            raise PageError(_OVER)
        return f"{answer}: {question.tool} of {question.server}, for {question.who}"

    return do


def _check_other(question: Question, reader: Reader) -> None:
    """Refuse the answer of a caller to their own question, and of who is not known to be somebody else.

    Raises:
        PageError: it is one of these.
    """
    if not (reader.caller.subject and question.person[1]):
        raise PageError("somebody else than the caller is to answer, and without a login it is not known who you are")
    if reader.caller.person == question.person:
        raise PageError("somebody else than you is to answer: the call is yours")


def _since(question: Question) -> str:
    return datetime.fromtimestamp(question.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
