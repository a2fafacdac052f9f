"""A component's own `auth` check is passed over for the one who launched the server over stdio, and for nobody else."""

from __future__ import annotations

import pytest
from fastmcp.tools.base import Tool

from agent_utilities.compat.fastmcp_server import as_over_stdio
from agent_utilities.server.surface.visibility_transform import admitted

pytestmark = pytest.mark.anyio


def work() -> str:
    return ""


TOOLS = [
    Tool.from_function(work, name="open"),
    Tool.from_function(work, name="guarded", auth=lambda context: context.token is not None),
]


async def test_over_stdio_all_are_admitted() -> None:
    with as_over_stdio():
        assert await admitted(TOOLS) == TOOLS


async def test_elsewhere_who_has_no_token_is_admitted_to_those_without_a_check() -> None:
    assert await admitted(TOOLS) == TOOLS[:1]
