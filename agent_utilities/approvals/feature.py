"""The feature that has calls wait for a person's yes, and uses each yes for one call."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from typing import Any

from fastmcp.server.dependencies import get_http_request
from fastmcp.tools.base import Tool

from agent_utilities.approvals import asking
from agent_utilities.approvals.asking import NO, Brought, answers_of, client_of, input_required, told
from agent_utilities.approvals.panel import panel
from agent_utilities.approvals.rules import is_destructive, table_of, why
from agent_utilities.approvals.shown import canonical, described
from agent_utilities.approvals.store import N_OF_CALLER, QUIET_S, Answer, Question, Store
from agent_utilities.results.feature import owner_of
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.caller import NOBODY, address_of
from agent_utilities.seam.components import origin_of
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import Asked, Feature, Refusal
from agent_utilities.seam.host import Approver, ApproveSource, Host, SharedState, find
from agent_utilities.seam.panel import Panel
from agent_utilities.seam.request import Call, Request
from agent_utilities.settings import ApproveRule

logger = logging.getLogger("agent_utilities.approvals")

ASK_S = 300.0
"""Seconds that a call waits for the answer of its caller's client."""
_SHOWN = 4_000
"""About the most characters of arguments that are kept to be shown: 16 KB at most."""
_N_IDS = 5
_AGAIN = "call again after that"


@dataclass(frozen=True, slots=True)
class SessionYes:
    """What was agreed to for the rest of a session: tools with their definition and rule, hashed."""

    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalAsked(Event):
    """Somebody is asked whether a call may be made: by the caller's own `client`, or on the `page`."""

    question: Question
    how: str

    def recorded(self) -> tuple[str, Mapping[str, Any]]:
        return "question", {**_recorded(self.question), "how": self.how}


@dataclass(frozen=True, slots=True)
class ApprovalAnswered(Event):
    """A question was answered, or given up.

    Args:
        how: by way of the caller's `client` or of the `page`; the `server` gives it up.
        by: issuer and subject of who answered; empty texts for nobody in particular.
    """

    question: Question
    answer: str
    how: str
    by: tuple[str, str] = ("", "")

    def log(self) -> None:
        logger.info("tools/call name=%r was answered %s by way of the %s", self.question.tool, self.answer, self.how)

    def recorded(self) -> tuple[str, Mapping[str, Any]]:
        by = {"by_issuer": self.by[0], "by_subject": self.by[1]}
        return "answer", {**_recorded(self.question), "how": self.how, "answer": self.answer, **by}


def _recorded(question: Question) -> dict[str, Any]:
    who = dict(zip(("issuer", "subject"), question.person, strict=True))
    about = {"tool": question.tool, "server": question.server, "arguments_sha256": question.digest}
    return {**who, **about, "verdict": "permitted"}


@dataclass(slots=True)
class _OfCall:
    """What is known of one call: what it brought, and the key of the yes that it was made by."""

    brought: Brought | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Wanting:
    """A call that wants a yes: its question; its tool, definition and rule; and whether a yes may be for a session."""

    question: Question
    tool_key: str
    may_last: bool


class Approvals(Feature):
    """Refuses calls of the tools that the operator names until a person has agreed to each.

    A yes is for one caller, tool, definition, rule and set of arguments, and for one call within ten minutes.
    """

    name = "approvals"
    before = ("quotas",)
    after = ("access", "audit", "fleet")
    keeps = SessionYes
    limit_s = None  # a person takes their time; each wait has a deadline of its own

    def __init__(self) -> None:
        self.ask_s, self._asking = ASK_S, Counter[str]()

    def attach(self, host: Host) -> None:
        """Read the operator's rules.

        Raises:
            SettingsError: they can't be read.
        """
        super().attach(host)
        self._table = table_of(host.operator.settings, host.operator.files)
        host.offer(Approver, lambda: Approver(self.ask))
        host.offer(Panel, partial(panel, self))

    @cached_property
    def store(self) -> Store:
        """The questions that wait, and their answers."""
        shared = find(self.host, SharedState)
        return Store(None if shared is None else shared.redis)

    def start_lines(self) -> Sequence[str]:
        return self._table.start_lines()

    # -- around calls ------------------------------------------------------------------------------------------------

    async def before_call(self, request: Request, call: Call) -> Call:
        """Take our part out of a request's `requestState`, which the tool's own question may be wrapped in."""
        own, params = asking.brought(call.params)
        request.values[self.name] = _OfCall(own)
        return call if own is None else replace(call, params=params)

    async def admit(self, request: Request, call: Call) -> None:
        """Have a call wait for a yes where a rule fits it.

        Raises:
            Refusal: the answer was no, nobody can be asked, or what is asked can't be kept.
            Asked: the question was put.
        """
        try:
            if (wanting := await self._wanting(request, call)) is not None and not self._lasts(request, wanting):
                of_call = request.values.setdefault(self.name, _OfCall())
                await self._settle(request, call, wanting, of_call.brought)
                of_call.key = wanting.question.key
        except OSError as error:
            raise Refusal(f"{call.name} was not called: a yes can't be kept now ({error}); try again") from error

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Wrap the state of a tool's own question, so that the next round of the same call needs no second yes."""
        of_call = request.values.get(self.name)
        if call is None or of_call is None or not of_call.key or result.get("resultType") != "input_required":
            return result
        ticket = await self.store.ticket("go", of_call.key)
        return {**result, "requestState": asking.state_of("go", ticket, result.get("requestState"))}

    async def _settle(self, request: Request, call: Call, wanting: _Wanting, own: Brought | None) -> None:
        """Return where a call has its yes, which is used by it."""
        if own is not None and await self._goes_on(request, wanting, own):
            return
        if own is None and call.params.get("requestState") is not None:
            raise Refusal(f"{call.name} was not called: it wants a yes by now; call it anew, without `requestState`")
        while (there := await self.store.find(wanting.question.key)) is not None:
            if there.answer == "waiting":
                raise Asked(told(self._line([there], _AGAIN)), there.id)
            if there.answer == "yes":
                if await self.store.take(there):
                    return
            elif await self.store.told(there):
                raise _refusal(there)
            else:
                break
        await self._ask(request, call, wanting)

    async def _goes_on(self, request: Request, wanting: _Wanting, own: Brought) -> bool:
        """Whether a call has its yes by what it brought: the answer to its question, or an earlier round's."""
        is_known = await self.store.spend(own.ticket, own.kind, wanting.question.key)
        if own.kind == "go" and not is_known:
            raise Refusal("not called: the yes that this goes on from is used up or over; call anew")
        if own.kind == "ask" and is_known and own.answer is not None:
            await self._said(request, wanting, own.answer)
        return is_known and (own.kind == "go" or own.answer is not None)

    async def _ask(self, request: Request, call: Call, wanting: _Wanting) -> None:
        client, question = client_of(request), wanting.question
        shown = await in_daemon_thread(lambda: described(call.arguments, _SHOWN))
        question = replace(question, shown=shown, asks_client=question.asks_client and client.takes_forms)
        how = "client" if question.asks_client else "page"
        if request.within or how == "page":
            if how == "page" and (self.host.transport == "stdio" or not self.host.operator.settings.page):
                raise Refusal(f"{call.name} was not called: it wants a person's yes, and nobody can be asked")
            question, given_up = await self.store.put(question)
            for each in given_up:
                self.host.notify(ApprovalAnswered(each, "given up", "server"))
        self.host.notify(ApprovalAsked(question, how))
        if question.id:
            raise Asked(told(self._line([question], _AGAIN)), question.id)
        if client.ctx is None:
            state = asking.state_of("ask", await self.store.ticket("ask", question.key))
            raise Asked(input_required([question], state))
        with self._one_more(question):
            answer = await client.answer([question], self.ask_s, offers_session=wanting.may_last)
        await self._said(request, wanting, answer)
        now = await self._wanting(request, call)
        if now is not None and now.question.key != question.key:
            raise Refusal(f"{call.name} was not called: it changed while you were asked; call it again")

    async def _said(self, request: Request, wanting: _Wanting, answer: Mapping[str, Any] | None) -> None:
        """Note the answer of a caller's client.

        Raises:
            Refusal: it was no yes.
        """
        question, session = wanting.question, request.session
        [said] = answers_of([question], answer, offers_session=wanting.may_last)
        by = (request.caller or NOBODY).person
        self.host.notify(ApprovalAnswered(question, "none" if answer is None else said, "client", by))
        if said == NO:
            await self.store.refuse(question)
            raise _refusal(question, "there was no answer" if answer is None else "the answer was no")
        if said == asking.YES_FOR_SESSION and session is not None:
            new = wanting.tool_key
            session.update(self.name, SessionYes(), lambda had: SessionYes(tuple({*had.tools, new})))

    def _lasts(self, request: Request, wanting: _Wanting) -> bool:
        """Whether a call is agreed to for its whole session."""
        kept = SessionYes() if request.session is None else request.session.get(self.name, SessionYes())
        return wanting.may_last and wanting.tool_key in kept.tools

    @contextmanager
    def _one_more(self, question: Question) -> Iterator[None]:
        """Count an open question of a caller's client for a block; refuse one too many."""
        if self._asking[question.owner] >= N_OF_CALLER:
            raise Refusal(f"{question.tool} was not called: {N_OF_CALLER} questions of yours are open; wait for them")
        self._asking[question.owner] += 1
        try:
            yield
        finally:
            self._asking[question.owner] -= 1
            self._asking += Counter()  # without those that have none

    def _line(self, questions: Sequence[Question], resume: str) -> str:
        """Return what a caller is told where it is asked on the page."""
        names = ", ".join(dict.fromkeys(each.tool for each in questions))
        ids = " ".join(each.id for each in questions[:_N_IDS])
        who = "somebody else than you" if any(each.by_other for each in questions) else "a person"
        base = self.host.operator.settings.auth_base_url.rstrip("/")
        if not base and self.host.address is not None:
            host, port = self.host.address
            base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        place = f"{base}/page/approvals or by `agent-utilities approve` ({ids})"
        return f"{names}: not called yet, it waits for the yes of {who} at {place}; {resume}"

    # -- what a call wants -------------------------------------------------------------------------------------------

    async def _wanting(self, request: Request, call: Call) -> _Wanting | None:
        """Return what a call wants a yes for; None where no rule fits it. Of several the strictest counts."""
        catalog = (await self.host.decide("tool", request.verdict)).catalog
        entries = [catalog.entries[i] for i in catalog.places_by_own_name.get(call.name, ())]
        rules = [(rule, call.name) for rule in self._rules(request)] + await self._rules_of_server(call.name)
        fitting = {i: found for i, (rule, name) in enumerate(rules) if (found := why(rule, entries, name))}
        if not fitting:
            return None
        by_other = any(rules[i][0].by == "other" for i in fitting)
        asks_client = not by_other and all(rules[i][0].how == "auto" for i in fitting)
        caller, hashed = request.caller or NOBODY, self.store.hashed
        owner, digest = hashed(_owner(request)), sha256(canonical(call.arguments)).hexdigest()
        rule = sorted(set().union(*fitting.values())), asks_client, by_other
        tool_key = hashed(call.name, [each.stamp.hex() for each in entries], *rule)
        question = Question(
            key=hashed(owner, tool_key, digest, bool(request.within)),
            owner=owner,
            person=caller.person,
            tool=call.name,
            server=self.host.tool_facts(catalog, call.name).server or self.host.name,
            shown="",
            digest=digest[:16],
            by_other=by_other,
            asks_client=asks_client,
            at=self.store.now(),
        )
        may_last = asks_client and not is_destructive(entries) and request.session is not None
        return _Wanting(question, tool_key, may_last)

    def _rules(self, request: Request) -> list[ApproveRule]:
        """Return the settings' rules for a request: those of all its profiles too, and in programs what writes."""
        table = self._table
        grant = self.host.grant_of(request.caller) if table.profiles else None
        slots = (*self.host.operator.selection.slots, *request.selection.slots) if table.profiles else ()
        values = [setting.value for (field, _), setting in slots if field == "profile"]
        named = {str(value[0]) for value in values if isinstance(value, tuple)} | (grant.profiles if grant else set())
        in_programs = ApproveRule(tools=table.programs, how=table.how, by=table.by)
        profiles = [table.profiles[name] for name in sorted(named & table.profiles.keys())]
        return [table, *profiles, *([in_programs] if request.within else [])]

    async def _rules_of_server(self, name: str) -> list[tuple[ApproveRule, str]]:
        """Return the rules in the entry of a tool's server, with the tool's name there."""
        sources = [rules for each in self.host.offered(ApproveSource) if (rules := each.rules())]
        if not sources or not isinstance(tool := await self.host.component("tool", name), Tool):
            return []
        origin = origin_of(tool, self.host)
        return [(each[origin.server.name], origin.own_name or name) for each in sources if origin.server.name in each]

    # -- for features that make calls on behalf of another one, and the page -------------------------------------------

    async def ask(
        self, request: Request, questions: Sequence[str], state: str, resume: str
    ) -> Mapping[str, Any] | None:
        """Ask for all questions at once; see `Approver`."""
        try:
            there = [each for one in dict.fromkeys(questions) if (each := await self.store.by_id(one)) is not None]
            return await self._ask_all(request, [each for each in there if each.answer == "waiting"], state, resume)
        except OSError as error:
            return told(f"nothing was called: a yes can't be kept now ({error}); {resume}")

    async def _ask_all(
        self, request: Request, waiting: Sequence[Question], state: str, resume: str
    ) -> Mapping[str, Any] | None:
        client = client_of(request)
        of_client = [each for each in waiting if each.asks_client and client.takes_forms]
        if of_client:
            if client.ctx is None:
                key = f"{asking.KEY}-{self.store.hashed([each.id for each in of_client])}"
                if (answer := asking.response(request.params, key)) is None:
                    return input_required(of_client, state, key)
            else:
                with self._one_more(of_client[0]):
                    answer = await client.answer(of_client, self.ask_s)
            by = (request.caller or NOBODY).person
            for each, said in zip(of_client, answers_of(of_client, answer), strict=True):
                await self.answer(each.id, "no" if said == NO else "yes", "client", by)
        on_page = [each for each in waiting if each not in of_client]
        for each in on_page:
            if each.asks_client:
                await self.store.to_page(each.id)
        return told(self._line(on_page, resume)) if on_page else None

    async def answer(self, question_id: str, answer: Answer, how: str, by: tuple[str, str]) -> Question | None:
        """Answer a waiting question, and return it; None where it waits no more."""
        question = await self.store.answer(question_id, answer)
        if question is not None:
            self.host.notify(ApprovalAnswered(question, answer, how, by))
        return question


def _owner(request: Request) -> tuple[str, ...]:
    """Return whom a yes is for: a subject, else a session, a token, an address; over stdio whoever runs it."""
    owner = owner_of(request.caller, request.session)
    if owner.by != "handle":
        return owner.by, *owner.names
    try:
        return "address", address_of(get_http_request().scope)
    except RuntimeError:  # no request over HTTP
        return ("stdio",)


def _refusal(question: Question, reason: str = "the answer was no") -> Refusal:
    if question.answer == "given up":
        return Refusal(f"{question.tool} was not called: its question was given up for others; call again to ask anew")
    return Refusal(f"{question.tool} was not called: {reason}; the same is not asked again for {QUIET_S} s")
