"""Calls of an upstream that each caller logs in at themselves: who has not is asked to, by a link."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import mcp_types
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context
from fastmcp.tools.base import ToolResult
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from agent_utilities.features.logins.links import Link, Links
from agent_utilities.features.upstreams.calls import CALL_TOOL, COMPLETE, Caller, Denials, Kind, RelayedToolResult
from agent_utilities.features.upstreams.relay import ServerRelay, offers
from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.errors import UpstreamError
from agent_utilities.upstream.http.account import LOGIN_S, Account
from agent_utilities.upstream.operator.operator_rules import OperatorRules
from agent_utilities.upstream.snapshot import Snapshot

WAIT_S = 45.0
"""Seconds that a call waits for a login under way: hosts give a call up at 60."""
_STATE = "l"
"""The state of a request whose caller was asked to log in; see `_THEIRS` of calls for the others."""
_KEY = "login"
_UNKNOWN = (
    "each caller logs in there with an account of their own, and it is not known who you are: this server has no login"
    " in front of it. Its operator gives it one by MCP_AUTH_TOKENS or MCP_AUTH_ISSUER"
)
_ACCEPTED = mcp_types.ElicitResult(action="accept")
LOGIN = "login"
"""What the tool is called that stands for an upstream's as long as its caller has not logged in."""


class LoginTool(mcp_types.Tool):
    """A tool of ours among an upstream's."""


def login_snapshot(config: UpstreamConfig) -> Snapshot:
    """Return what stands for the list of an upstream of which somebody was never listed anything: one tool."""
    about = f" ({config.description})" if config.description else ""
    told = f"Log in at {config.name}{about} with your own account: its tools are listed once you have."
    tool = LoginTool(
        name=LOGIN,
        title=f"Log in at {config.name}",
        description=told,
        input_schema={"type": "object", "properties": {}},
        annotations=mcp_types.ToolAnnotations(read_only_hint=True),
    )
    # In the handshake's era, so that nothing is asked of the upstream by this.
    version = LATEST_HANDSHAKE_VERSION
    return Snapshot(
        upstream=config.name, config_digest=config.digest, taken_at_s=0.0, protocol_version=version, tools=(tool,)
    )


@dataclass(frozen=True)
class LoginCaller(Caller):
    """Calls one upstream for a caller who logs in there themselves.

    Args:
        account: their login; None where it is not known who they are.
        links: makes the link by which they are asked.
        person: issuer and subject; None where it is not known.
    """

    account: Account | None
    links: Links
    person: tuple[str, str] | None

    @property
    def listed(self) -> Snapshot | None:
        """What it listed to them last; a tool to log in by where that is nothing yet."""
        return self.upstream.snapshot or login_snapshot(self.config)

    def judged_by(self, denials: Denials) -> Denials:
        """Return the same, but that the tool to log in by needs no place in an allow-list or lock of its upstream's."""
        if self.upstream.snapshot is not None:
            return denials
        return lambda config, shot: OperatorRules().denials(config.model_copy(update={"allow": None}), shot)

    def resumed(self, context: Context) -> tuple[str | None, mcp_types.InputResponses | None]:
        """Return the upstream's state and answers: none, where their caller was asked to log in."""
        return (None, None) if context.request_state == _STATE else super().resumed(context)

    async def call_tool(self, tool: mcp_types.Tool, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool, or have the caller log in by the one for that; see `Caller.call_tool`."""
        return await (self.log_in() if isinstance(tool, LoginTool) else super().call_tool(tool, arguments))

    @property
    def login_name(self) -> str:
        """What the tool to log in by is called here."""
        return self.namespace.namespaced(self.config.name, LOGIN)

    async def log_in(self, _: Mapping[str, Any] | None = None) -> ToolResult:
        """Have the caller log in where they have not, and tell them what there is for them then."""
        try:
            asked = await self._log_in(ServerRelay(get_context()))
            if asked is not None:
                result: ToolResult = CALL_TOOL.asked(asked)
                return result
            text, is_error = await self._what_there_is(), False
        except UpstreamError as error:
            text, is_error = str(error), True
        content = mcp_types.TextContent(type="text", text=text)
        return RelayedToolResult.of(mcp_types.CallToolResult(content=[content], is_error=is_error))

    async def _what_there_is(self) -> str:
        """Return what somebody is told who is logged in, once what there is for them is listed.

        Raises:
            UpstreamError: it could not be.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.list_timeout_s):
                await self.upstream.was_tried.wait()
        name, snapshot, state = self.config.name, self.upstream.snapshot, self.upstream.state
        if snapshot is None:
            raise UpstreamError(name, state.cause or "did not answer", state.detail or "it has listed nothing yet")
        return f"You are logged in at {name}, and its {len(snapshot.tools)} tools are listed now."

    async def _request(self, kind: Kind, **params: Any) -> Any:
        """Send a request, once the caller has logged in; ask them again where the login turns out to have ended."""
        if kind is COMPLETE and (self.account is None or not self.account.has_login.is_set()):
            return kind.asked(mcp_types.InputRequiredResult(input_requests={}))
        for is_last in (False, True):
            if (asked := await self._log_in(ServerRelay(get_context()))) is not None:
                return kind.asked(asked)
            try:
                return await super()._request(kind, **params)
            except UpstreamError:
                if is_last or self.account is None or self.account.has_login.is_set():
                    raise
        raise AssertionError

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _log_in(self, relay: ServerRelay) -> mcp_types.InputRequiredResult | None:
        """Return once the caller is logged in; or what they are asked, who can be asked in a result alone.

        Raises:
            UpstreamError: it is not known who they are, they can't be asked, or they did not log in in time.
        """
        account = self.account
        if account is None or self.person is None:
            raise UpstreamError(self.config.name, "refused", _UNKNOWN)
        if not account.has_login.is_set():
            await account.load()  # they may have logged in by another process
        if account.has_login.is_set():
            return None
        link = self.links.link(self.person, account, self.config.name)
        question = self._question(link)
        if not offers(relay.capabilities, question):
            raise self._unanswered(link, "open")
        if relay.is_modern:
            context = get_context()
            given: Mapping[str, Any] = context.input_responses or {}
            if context.request_state != _STATE or _KEY not in given:
                return mcp_types.InputRequiredResult(input_requests={_KEY: question}, request_state=_STATE)
            answer = given[_KEY]
        elif relay.session in link.asked:  # by another call, which is under way beside this one
            answer = _ACCEPTED
        else:
            answer = await self._answer(relay, link, question)
        if not isinstance(answer, mcp_types.ElicitResult) or answer.action != "accept":
            raise self._unanswered(link, "it was declined; to log in after all open")
        try:
            async with asyncio.timeout(WAIT_S):
                await account.has_login.wait()
        except TimeoutError:
            raise self._unanswered(link, "it is not done yet; go on at") from None
        return None

    async def _answer(self, relay: ServerRelay, link: Link, question: mcp_types.ElicitRequest) -> Any:
        link.asked.add(relay.session)
        try:
            async with asyncio.timeout(LOGIN_S):
                return await relay.ask(question)
        except TimeoutError:
            return None
        finally:
            link.asked.discard(relay.session)

    def _question(self, link: Link) -> mcp_types.ElicitRequest:
        told = f"Log in at {self.config.name} with your own account"
        return mcp_types.ElicitRequest(
            params=mcp_types.ElicitRequestURLParams(message=told, url=link.url, elicitation_id=link.state)
        )

    def _unanswered(self, link: Link, what: str) -> UpstreamError:
        told = f"it wants your own login: {what} {link.url} in your browser, and then call again"
        return UpstreamError(self.config.name, "refused", told)
