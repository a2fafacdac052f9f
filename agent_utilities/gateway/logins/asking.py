"""Calls of an upstream that each caller logs in at themselves: who has not is asked to, by a link."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult

from agent_utilities.gateway.calls import CALL_TOOL, COMPLETE, Caller, Kind, text_result
from agent_utilities.gateway.logins.links import Link, Links
from agent_utilities.gateway.relay import ServerRelay, offers
from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.http.account import Account
from agent_utilities.gateway.upstreams.http.authorization import LOGIN_S
from agent_utilities.gateway.upstreams.supervision.upstream import Upstream
from agent_utilities.runtime.waiting import is_set

WAIT_S = 45.0
"""Seconds that a call waits for a login under way: hosts give a call up at 60."""
_STATE = "login"
"""The state of a request whose caller was asked to log in, and the key of what they answered."""
_UNKNOWN = (
    "each caller logs in there with an account of their own, and it is not known who you are: this server has no login"
    " in front of it. Its operator gives it one by MCP_AUTH_TOKENS or MCP_AUTH_ISSUER"
)


@dataclass(frozen=True, eq=False)
class OwnLogin:
    """Has one person log in at one upstream, in a request of theirs.

    Args:
        upstream: theirs, by a connection of its own.
        account: their login; None where it is not known who they are.
        links: makes the link by which they are asked.
    """

    upstream: Upstream
    account: Account | None
    links: Links

    @property
    def is_made(self) -> bool:
        """Whether they are logged in."""
        return self.account is not None and self.account.has_login.is_set()

    async def answer(self, _: Mapping[str, Any]) -> ToolResult:
        """Answer the tool to log in by: have them log in where they have not, and tell what there is for them then."""
        try:
            if (asked := await self.ask()) is not None:
                result: ToolResult = CALL_TOOL.asked(asked)
                return result
            text, is_error = await self._what_there_is(), False
        except UpstreamError as error:
            text, is_error = str(error), True
        return text_result(text, is_error=is_error)

    async def _what_there_is(self) -> str:
        """Return what they are told once what there is for them is listed.

        Raises:
            UpstreamError: it could not be.
        """
        await is_set(self.upstream.was_tried, within_s=self.upstream.config.list_timeout_s)
        name, snapshot, state = self.upstream.config.name, self.upstream.snapshot, self.upstream.state
        if snapshot is None:
            raise UpstreamError(name, state.cause or "did not answer", state.detail or "it has listed nothing yet")
        return f"You are logged in at {name}, and its {len(snapshot.tools)} tools are listed now."

    async def ask(self) -> mcp_types.InputRequiredResult | None:
        """Return once they are logged in; or what they are asked, who can be asked in a result alone.

        Raises:
            UpstreamError: it is not known who they are, they can't be asked, or they did not log in in time.
        """
        if self.account is None:
            raise self._refused(_UNKNOWN)
        if not self.is_made:
            await self.account.load()  # they may have logged in by another process
        if self.is_made:
            return None
        relay, link = ServerRelay(get_context()), await self.links.link(self.account)
        told = f"Log in at {self.account.upstream} with your own account"
        params = mcp_types.ElicitRequestURLParams(message=told, url=link.url, elicitation_id=link.state)
        question = mcp_types.ElicitRequest(params=params)
        if not offers(relay.capabilities, question):
            raise self._unanswered(link, "open")
        if relay.is_modern:
            context = get_context()
            given: Mapping[str, Any] = context.input_responses or {}
            if context.request_state != _STATE or _STATE not in given:
                return mcp_types.InputRequiredResult(input_requests={_STATE: question}, request_state=_STATE)
            answer = given[_STATE]
        else:
            answer = await _answer(relay, link, question)
        if not isinstance(answer, mcp_types.ElicitResult) or answer.action != "accept":
            raise self._unanswered(link, "it was declined; to log in after all open")
        if not await is_set(self.account.has_login, within_s=WAIT_S):
            raise self._unanswered(link, "it is not done yet; go on at")
        return None

    def _unanswered(self, link: Link, what: str) -> UpstreamError:
        return self._refused(f"it wants your own login: {what} {link.url} in your browser, and then call again")

    def _refused(self, why: str) -> UpstreamError:
        return UpstreamError(self.upstream.config.name, "refused", why)


async def _answer(relay: ServerRelay, link: Link, question: mcp_types.ElicitRequest) -> Any:
    """Return what a session's host answers; it is asked once for calls that are under way beside each other."""
    if relay.session in link.asked:
        return mcp_types.ElicitResult(action="accept")
    link.asked.add(relay.session)
    try:
        async with asyncio.timeout(LOGIN_S):
            return await relay.ask(question)
    except TimeoutError:
        return None
    finally:
        link.asked.discard(relay.session)


@dataclass(frozen=True, kw_only=True)
class LoginCaller(Caller):
    """Calls one upstream for a caller who logs in there themselves.

    Args:
        login: asks them to, where they have not.
    """

    login: OwnLogin

    async def _request(self, kind: Kind[Any], **params: Any) -> Any:
        """Send a request, once the caller has logged in; ask them again where the login turns out to have ended."""
        if kind is COMPLETE and not self.login.is_made:
            return kind.asked(mcp_types.InputRequiredResult(input_requests={}))
        for is_last in (False, True):
            if (asked := await self.login.ask()) is not None:
                return kind.asked(asked)
            try:
                return await super()._request(kind, **params)
            except UpstreamError:
                if is_last or self.login.is_made:
                    raise
        raise AssertionError
