"""The feature that has calls wait for a person's yes, and uses each yes for one call."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

from fastmcp.server.dependencies import get_http_request
from fastmcp.tools.base import Tool

from agent_utilities.approvals import asking
from agent_utilities.approvals.asking import Brought, Client, answers_of, client_of, input_required, told
from agent_utilities.approvals.panel import panel
from agent_utilities.approvals.rules import Wanted, misspelt, table_of, wanted
from agent_utilities.approvals.shown import canonical, described, digest_of
from agent_utilities.approvals.store import N_OF_CALLER, QUIET_S, Answer, Question, Store
from agent_utilities.results.feature import owner_of
from agent_utilities.runtime.waiting import in_daemon_thread
from agent_utilities.seam.caller import NOBODY, Caller, address_of
from agent_utilities.seam.components import origin_of
from agent_utilities.seam.events import Event
from agent_utilities.seam.feature import Asked, Feature, Refusal
from agent_utilities.seam.host import Approver, ApproveSource, Host, SharedState, find
from agent_utilities.seam.panel import Panel
from agent_utilities.seam.request import Call, Request
from agent_utilities.settings import ApproveRule

if TYPE_CHECKING:
    from agent_utilities.seam.session import Session

logger = logging.getLogger("agent_utilities.approvals")

ASK_S = 300.0
"""Seconds that a call waits for the answer of its caller's client."""
_SHOWN = 4_000
"""About the most characters of arguments that are kept to be shown: 16 KB at most."""
_IN_PROGRAMS = "writes"
"""What is asked for where a program calls it, whatever else the operator says."""
How = Literal["client", "page", "server"]


@dataclass(frozen=True, slots=True)
class SessionYes:
    """What was agreed to for the rest of a session: tools with their definition and rule, hashed."""

    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalAsked(Event):
    """Somebody is asked whether a call may be made."""

    question: Question
    how: How

    def recorded(self) -> tuple[str, Mapping[str, Any]]:
        return "question", {**_recorded(self.question), "how": self.how}


@dataclass(frozen=True, slots=True)
class ApprovalAnswered(Event):
    """A question was answered, or given up.

    Args:
        by: issuer and subject of who answered; empty texts for nobody in particular.
    """

    question: Question
    answer: str
    how: How
    by: tuple[str, str]

    def log(self) -> None:
        logger.info("tools/call name=%r was answered %s by way of the %s", self.question.tool, self.answer, self.how)

    def recorded(self) -> tuple[str, Mapping[str, Any]]:
        by = {"by_issuer": self.by[0], "by_subject": self.by[1]}
        return "answer", {**_recorded(self.question), "how": self.how, "answer": self.answer, **by}


def _recorded(question: Question) -> dict[str, Any]:
    issuer, subject = question.person
    about = {"tool": question.tool, "server": question.server, "arguments_sha256": question.digest}
    return {"issuer": issuer, "subject": subject, **about, "verdict": "permitted"}


@dataclass(slots=True)
class _OfCall:
    """What is known of one call: what it brought, and the key of the yes that it was made by."""

    brought: Brought | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class _Wanting:
    """A call that wants a yes, and what for."""

    question: Question
    wanted: Wanted
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
        self.ask_s = ASK_S
        self._asking = Counter[str]()

    def attach(self, host: Host) -> None:
        """Read the operator's rules.

        Raises:
            SettingsError: they can't be read.
        """
        super().attach(host)
        self._table = table_of(host.operator.settings, host.operator.files)
        host.offer(Approver, lambda: self)
        host.offer(Panel, partial(panel, self))

    @cached_property
    def store(self) -> Store:
        """The questions that wait, and their answers."""
        shared = find(self.host, SharedState)
        return Store(None if shared is None else shared.redis)

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
            if (wanting := await self._wanting(request, call)) is not None:
                await self._settle(request, call, wanting)
        except OSError as error:
            raise Refusal(f"{call.name} was not called: a yes can't be kept now ({error}); try again") from error

    async def _settle(self, request: Request, call: Call, wanting: _Wanting) -> None:
        question, of_call = wanting.question, request.values.setdefault(self.name, _OfCall())
        if wanting.may_last and wanting.tool_key in self._lasting(request).tools:
            return
        if (own := of_call.brought) is not None:
            if await self._by_ticket(request, wanting, own):
                of_call.key = question.key
                return
        elif call.params.get("requestState") is not None:
            raise Refusal(f"{call.name} was not called: it wants a yes by now; call it anew, without `requestState`")
        while (there := await self.store.find(question.key)) is not None:
            if there.answer == "waiting":
                raise await self._waits(there, request)
            if there.answer == "yes":
                if await self.store.take(there):
                    of_call.key = question.key
                    return
            elif await self.store.told(there):
                raise _refusal(there)
            else:
                break
        await self._ask(request, call, wanting, of_call)

    async def _ask(self, request: Request, call: Call, wanting: _Wanting, of_call: _OfCall) -> None:
        question = wanting.question
        shown = await in_daemon_thread(lambda: described(call.arguments, _SHOWN))
        question, client = replace(question, shown=shown), client_of(request)
        asks_client = wanting.wanted.asks_client and client.takes_forms
        if request.within or not asks_client:
            if not asks_client and self.host.transport == "stdio":
                raise Refusal(f"{call.name} was not called: it wants a person's yes, and {_NOBODY}")
            kept, given_up = await self.store.put(replace(question, asks_client=asks_client))
            for each in given_up:
                self.host.notify(ApprovalAnswered(each, "given up", "server", ("", "")))
            self.host.notify(ApprovalAsked(kept, "client" if asks_client else "page"))
            raise await self._waits(kept, request)
        self.host.notify(ApprovalAsked(question, "client"))
        if client.is_modern:
            state = asking.state_of("ask", await self.store.ticket("ask", question.key))
            raise Asked(input_required([question], state))
        answer = await self._inline(client, [question], offers_session=wanting.may_last)
        [said] = answers_of([question], answer, offers_session=wanting.may_last)
        await self._answered(request, wanting, said, is_there=answer is not None)
        now = await self._wanting(request, call)
        if now is not None and now.question.key != question.key:
            raise Refusal(f"{call.name} was not called: it changed while you were asked; call it again")
        of_call.key = question.key

    async def _inline(self, client: Client, questions: Sequence[Question], *, offers_session: bool = False) -> Any:
        """Return a client's answer in the middle of a call; a caller has so many questions open at most."""
        owner = questions[0].owner
        if self._asking[owner] >= N_OF_CALLER:
            raise Refusal(
                f"{questions[0].tool} was not called: {N_OF_CALLER} questions of yours are open; wait for them"
            )
        self._asking[owner] += 1
        try:
            return await client.answer(questions, self.ask_s, offers_session=offers_session)
        finally:
            self._asking[owner] -= 1
            if not self._asking[owner]:
                del self._asking[owner]

    async def _by_ticket(self, request: Request, wanting: _Wanting, own: Brought) -> bool:
        """Whether a call goes on by what it brought: the answer to its question, or the yes of an earlier round."""
        is_known = await self.store.spend(own.ticket, own.kind, wanting.question.key)
        if own.kind == "go":
            if not is_known:
                raise Refusal("not called: the yes that this goes on from is used up or over; call anew")
            return True
        if not is_known or own.answer is None:
            return False  # asked anew: the answer was used, came late, or was to something else
        await self._answered(request, wanting, answers_of([wanting.question], own.answer)[0])
        return True

    async def _answered(self, request: Request, wanting: _Wanting, answer: str, *, is_there: bool = True) -> None:
        """Note the answer of a caller's client.

        Raises:
            Refusal: it was no yes.
        """
        question, person = wanting.question, (request.caller or NOBODY).person
        self.host.notify(ApprovalAnswered(question, answer if is_there else "none", "client", person))
        if answer == asking.NO:
            await self.store.refuse(question)
            raise _refusal(replace(question, answer="no"), is_there=is_there)
        if answer == asking.YES_FOR_SESSION and request.session is not None:
            key = wanting.tool_key
            request.session.update(self.name, SessionYes(), lambda had: SessionYes(tuple({*had.tools, key})))

    async def after_request(self, request: Request, result: dict[str, Any], call: Call | None) -> dict[str, Any]:
        """Wrap the state of a tool's own question, so that the next round of the same call needs no second yes."""
        of_call = request.values.get(self.name)
        if call is None or of_call is None or not of_call.key or result.get("resultType") != "input_required":
            return result
        ticket = await self.store.ticket("go", of_call.key)
        return {**result, "requestState": asking.state_of("go", ticket, result.get("requestState"))}

    async def _waits(self, question: Question, request: Request, resume: str = "call again after that") -> Asked:
        return Asked(told(self._line([question], resume)), question.id)

    def _line(self, questions: Sequence[Question], resume: str) -> str:
        names = ", ".join(dict.fromkeys(each.tool for each in questions))
        ids = " ".join(each.id for each in questions[:_N_IDS])
        other = "somebody else than you" if any(each.by_other for each in questions) else "a person"
        return (
            f"{names}: not called yet, it waits for the yes of {other} at {self._page} or by "
            f"`agent-utilities approve` ({ids}); {resume}"
        )

    @property
    def _page(self) -> str:
        base = self.host.operator.settings.auth_base_url.rstrip("/")
        if not base and self.host.address is not None:
            host, port = self.host.address
            base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        return f"{base}/page/approvals"

    # -- what a call wants -------------------------------------------------------------------------------------------

    async def _wanting(self, request: Request, call: Call) -> _Wanting | None:
        """Return what a call wants a yes for; None where no rule fits it."""
        decision = await self.host.decide("tool", request.verdict)
        catalog = decision.catalog
        entries = [catalog.entries[i] for i in catalog.places_by_own_name.get(call.name, ())]
        server = catalog_server = self.host.tool_facts(catalog, call.name).server
        names, rules = {call.name}, self._rules(request)
        sources = [each.rules() for each in self.host.offered(ApproveSource)]
        if any(sources) and isinstance(tool := await self.host.component("tool", call.name), Tool):
            origin = origin_of(tool, self.host)
            server = origin.server.name or catalog_server
            own_rules = [each[server] for each in sources if server in each]
            found = [wanted(own_rules, entries, {origin.own_name or call.name}), wanted(rules, entries, names)]
        else:
            found = [wanted(rules, entries, names)]
        fitting = [each for each in found if each is not None]
        if not fitting:
            return None
        strictest = Wanted(
            any(each.on_page for each in fitting),
            any(each.by_other for each in fitting),
            tuple(sorted({why for each in fitting for why in each.why})),
        )
        caller = request.caller or NOBODY
        owner = self.store.hashed(_owner(caller, request.session))
        definition = [each.stamp.hex() for each in entries]
        tool_key = self.store.hashed(call.name, definition, strictest.why, strictest.on_page, strictest.by_other)
        digest = blake2b(canonical(call.arguments), digest_size=32).hexdigest()
        question = Question(
            key=self.store.hashed(owner, tool_key, digest),
            owner=owner,
            person=caller.person,
            tool=call.name,
            server=server or self.host.name,
            shown="",
            digest=digest_of(call.arguments),
            by_other=strictest.by_other,
            asks_client=strictest.asks_client,
            at=self.store.now(),
        )
        is_destructive = any(each.destructive and not each.read_only for each in entries)
        may_last = strictest.asks_client and not is_destructive and request.session is not None
        return _Wanting(question, strictest, tool_key, may_last)

    def _rules(self, request: Request) -> list[ApproveRule]:
        table = self._table
        profiles = [table.profiles[name] for name in self._profiles(request) if name in table.profiles]
        in_programs = ApproveRule(tools=(_IN_PROGRAMS,), how=table.how, by=table.by)
        return [table, *profiles, *([in_programs] if request.within else [])]

    def _profiles(self, request: Request) -> frozenset[str]:
        """Return the folded names of all profiles of a request: what each asks for is asked."""
        if not self._table.profiles:
            return frozenset()
        grant = self.host.grant_of(request.caller)
        slots = (*self.host.operator.selection.slots, *request.selection.slots)
        values = [setting.value for (field, _), setting in slots if field == "profile"]
        named = frozenset(str(value[0]) for value in values if isinstance(value, tuple))
        return named if grant is None else named | grant.profiles

    def _lasting(self, request: Request) -> SessionYes:
        return SessionYes() if request.session is None else request.session.get(self.name, SessionYes())

    # -- for features that make calls on behalf of another one ---------------------------------------------------------

    async def ask(
        self, request: Request, questions: Sequence[str], state: str, resume: str
    ) -> Mapping[str, Any] | None:
        """Ask for all questions at once; see `Approver`."""
        try:
            return await self._ask_all(request, list(dict.fromkeys(questions)), state, resume)
        except OSError as error:
            return told(f"nothing was called: a yes can't be kept now ({error}); {resume}")

    async def _ask_all(self, request: Request, ids: list[str], state: str, resume: str) -> Mapping[str, Any] | None:
        there = [question for each in ids if (question := await self.store.by_id(each)) is not None]
        waiting = [each for each in there if each.answer == "waiting"]
        client = client_of(request)
        of_client = [each for each in waiting if each.asks_client and client.takes_forms]
        if of_client and client.is_modern:
            key = f"{asking.KEY}-{self.store.hashed([each.id for each in of_client])}"
            responses = request.params.get("inputResponses")
            answer = responses.get(key) if isinstance(responses, Mapping) else None
            if answer is None:
                return input_required(of_client, state, key)
            await self._answered_all(request, of_client, answer)
        elif of_client:
            answer = await self._inline(client, of_client)
            await self._answered_all(request, of_client, answer)
        on_page = [each for each in waiting if each not in of_client]
        for each in on_page:
            if each.asks_client:
                await self.store.to_page(each.id)
        return told(self._line(on_page, resume)) if on_page else None

    async def _answered_all(self, request: Request, questions: Sequence[Question], answer: Any) -> None:
        by = (request.caller or NOBODY).person
        for each, said in zip(questions, answers_of(questions, answer), strict=True):
            await self.answer(each.id, "no" if said == asking.NO else "yes", "client", by)

    async def answer(self, question_id: str, answer: Answer, how: How, by: tuple[str, str]) -> Question | None:
        """Answer a waiting question, and return it; None where it waits no more."""
        question = await self.store.answer(question_id, answer)
        if question is not None:
            self.host.notify(ApprovalAnswered(question, answer, how, by))
        return question

    # -- what it says of itself --------------------------------------------------------------------------------------

    def start_lines(self) -> Sequence[str]:
        table = self._table
        names = sorted({name for rule in table.rules for name in (*rule.tools, *(f"tag {tag}" for tag in rule.tags))})
        what = ", ".join(names) or "what servers' entries name"
        doubts = [
            f"WARNING: approve: {name!r} is a tool's name; was {near!r} meant?" for name, near in misspelt(table.rules)
        ]
        return [f"these are called after a person's yes: {what}", *doubts]


_N_IDS = 5
_NOBODY = "its caller's client can't be asked, and a server over stdio has no page"


def _owner(caller: Caller, session: Session | None) -> tuple[str, ...]:
    """Return whom a yes is for: a subject, else a session, a token, an address; over stdio whoever runs it."""
    owner = owner_of(caller, session)
    if owner.by != "handle":
        return owner.by, *owner.names
    try:
        return "address", address_of(get_http_request().scope)
    except RuntimeError:  # no request over HTTP
        return ("stdio",)


def _refusal(question: Question, *, is_there: bool = True) -> Refusal:
    if question.answer == "given up":
        return Refusal(f"{question.tool} was not called: its question was given up for others; call again to ask anew")
    why = "the answer was no" if is_there else "there was no answer"
    return Refusal(f"{question.tool} was not called: {why}; the same is not asked again for {QUIET_S} s")
