"""A FastMCP server whose tools ask their callers: `python talking_server.py`.

FastMCP serves both eras, and asks in the middle of a call in the handshake's alone.
"""

from typing import Any, Literal

import mcp_types
from fastmcp import Context, FastMCP
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, Field

server: FastMCP[None] = FastMCP("talking")


class Order(BaseModel):
    """What is asked for: one of few values, and a field with a default."""

    size: Literal["small", "large"] = "large"
    n: int = Field(default=3, description="how many")


@server.tool
async def elicit(ctx: Context) -> str:
    """Ask the caller's user for an order."""
    result = await ctx.elicit("What do you order?", response_type=Order)
    return f"{result.action}: {getattr(result, 'data', None)!r}"


@server.tool
async def sample(ctx: Context) -> str:
    """Ask the caller's model."""
    content = mcp_types.TextContent(type="text", text="Say something")
    params = mcp_types.CreateMessageRequestParams(
        messages=[mcp_types.SamplingMessage(role="user", content=content)], max_tokens=10
    )
    answer = await ask(ctx, mcp_types.CreateMessageRequest(params=params), mcp_types.CreateMessageResult)
    return str(answer.content.text)


@server.tool
async def roots(ctx: Context) -> list[str]:
    """Ask for the caller's folders."""
    answer = await ask(ctx, mcp_types.ListRootsRequest(), mcp_types.ListRootsResult)
    return [str(root.uri) for root in answer.roots]


async def ask(ctx: Context, question: Any, answer: Any) -> Any:
    """Ask on the stream of the call."""
    return await ctx.session.send_request(
        question, answer, metadata=ServerMessageMetadata(related_request_id=ctx.request_id)
    )


if __name__ == "__main__":
    server.run(show_banner=False)
