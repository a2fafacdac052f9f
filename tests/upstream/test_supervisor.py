"""One upstream and its supervisor, on real processes."""

from __future__ import annotations

import pytest

from agent_utilities.upstream.errors import UpstreamError
from tests.upstream.supervised import running, script

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]

PLAIN = script("plain", "plain_server.py")


class TestCalls:
    async def test_a_call_starts_it_and_is_answered(self):
        async with running(PLAIN) as upstreams:
            result = await upstreams["plain"].request(lambda live: live.session.call_tool("add", {"a": 1, "b": 2}))
        assert result.content[0].text == "3"

    async def test_a_command_that_is_not_there_is_told_by_name(self):
        async with running(PLAIN.model_copy(update={"command": "no-such-command"})) as upstreams:
            with pytest.raises(UpstreamError, match="upstream 'plain'"):
                await upstreams["plain"].request(lambda live: live.session.send_ping())
