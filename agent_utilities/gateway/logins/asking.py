"""Calls to an upstream where each caller has a login of their own: a caller without one is sent a link."""

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
"""Seconds that a call waits for a login under way: hosts time a call out at 60."""
_STATE = "login"
"""The state of a request whose caller was sent a link, and the key of their answer."""
_UNKNOWN = (
    "each caller logs in there with an account of their own, and it is not known who you are: this server has no login"
    " in front of it. Its operator gives it one by MCP_AUTH_TOKENS or MCP_AUTH_ISSUER"
)


@dataclass(frozen=True, eq=False)
class OwnLogin:
    """One person's login at one upstream, which a request of theirs waits for.

    Args:
        upstream: the upstream, by a connection of theirs alone.
        account: their login; None where it is not known who they are.
        links: makes the link that they log in by.
    """

    upstream: Upstream
    account: Account | None
    links: Links

    @property
    def is_made(self) -> bool:
        """Whether they are logged in."""
        return self.account is not None and self.account.has_login.is_set()

    async def answer(self, _: Mapping[str, Any]) -> ToolResult:
        """Answer a call of the login tool: ask them to log in where they have not, then count their tools."""
        try:
            if (question := await self.ask()) is not None:
                result: ToolResult = CALL_TOOL.asked(question)
                return result
            text, is_error = await self._what_there_is(), False
        except UpstreamError as error:
            text, is_error = str(error), True
        return text_result(text, is_error=is_error)

    async def _what_there_is(self) -> str:
        """Return a sentence with the number of their tools, once the upstream has listed them.

        Raises:
            UpstreamError: it could not be listed.
        """
        await is_set(self.upstream.was_tried, within_s=self.upstream.config.list_timeout_s)
        name, snapshot, state = self.upstream.config.name, self.upstream.snapshot, self.upstream.state
        if snapshot is None:
            raise UpstreamError(name, state.cause or "did not answer", state.detail or "it has listed nothing yet")
        return f"You are logged in at {name}, and its {len(snapshot.tools)} tools are listed now."

    async def ask(self) -> mcp_types.InputRequiredResult | None:
        """Return None once they are logged in; or, in the modern era, the result that asks them to.

        Raises:
            UpstreamError: it is not known who they are, their host can't ask, or they did not log in in time.
        """
        if self.account is None:
            raise self._refused(_UNKNOWN)
        if not self.is_made:
            await self.account.load()  # they may have logged in by another process
        if self.is_made:
            return None
        relay, link = ServerRelay(get_context()), await self.links.link(self.account)
        message = f"Log in at {self.account.upstream} with your own account"
        params = mcp_types.ElicitRequestURLParams(message=message, url=link.url, elicitation_id=link.state)
        question = mcp_types.ElicitRequest(params=params)
        if not offers(relay.capabilities, question):
            raise self._unanswered(link, "open")
        if relay.is_modern:
            context = get_context()
            responses: Mapping[str, Any] = context.input_responses or {}
            if context.request_state != _STATE or _STATE not in responses:
                return mcp_types.InputRequiredResult(input_requests={_STATE: question}, request_state=_STATE)
            answer = responses[_STATE]
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
    """Return the answer of a session's host, which shows concurrent calls' question once."""
    if relay.session in link.shown_in:
        return mcp_types.ElicitResult(action="accept")
    link.shown_in.add(relay.session)
    try:
        async with asyncio.timeout(LOGIN_S):
            return await relay.ask(question)
    except TimeoutError:
        return None
    finally:
        link.shown_in.discard(relay.session)


@dataclass(frozen=True, kw_only=True)
class LoginCaller(Caller):
    """Calls one upstream for a caller who logs in there themselves.

    Args:
        login: their login, which the first call asks for.
    """

    login: OwnLogin

    async def _request(self, kind: Kind[Any], **params: Any) -> Any:
        """Send a request once the caller has logged in; ask them again where the upstream says that the login ended."""
        if kind is COMPLETE and not self.login.is_made:
            return kind.asked(mcp_types.InputRequiredResult(input_requests={}))
        for is_last in (False, True):
            if (question := await self.login.ask()) is not None:
                return kind.asked(question)
            try:
                return await super()._request(kind, **params)
            except UpstreamError:
                if is_last or self.login.is_made:
                    raise
        raise AssertionError
