"""What an upstream asks and tells goes to the caller that it belongs to, and to nobody else."""

from __future__ import annotations

import mcp_types
from mcp.client.session import ClientRequestContext

from agent_utilities.upstream.connections.calls import CallsUnderWay


class Questions:
    """Hands what an upstream asks and tells to its caller.

    Args:
        calls: the calls that are under way on the connection.
    """

    def __init__(self, calls: CallsUnderWay) -> None:
        self._calls = calls

    async def sample(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.CreateMessageResultWithTools | mcp_types.ErrorData:
        """Have the caller's model answer."""
        if (asked := self._calls.asked()) is None:
            return _refusal("sampling")
        call, relay = asked
        with call.asking():
            return await relay.sample(params)

    async def elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Ask the caller's user."""
        if (asked := self._calls.asked()) is None:
            return _refusal("elicitation")
        call, relay = asked
        with call.asking():
            return await relay.elicit(params)

    async def roots(self, context: ClientRequestContext) -> mcp_types.ListRootsResult | mcp_types.ErrorData:
        """Ask for the caller's roots."""
        if (asked := self._calls.asked()) is None:
            return _refusal("roots")
        call, relay = asked
        with call.asking():
            return await relay.roots()

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Hand a log message on; it is dropped where it is nobody's alone."""
        if (asked := self._calls.asked()) is not None:
            call, relay = asked
            await call.tell(lambda: relay.log(params))


def _refusal(what: str) -> mcp_types.ErrorData:
    text = f"{what} refused: no call is under way, or calls of several sessions are, so it is not known whom to ask"
    return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=text)
