"""What a caller makes up fills no line of the server's log."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.wire.processes import Launch, served
from tests.wire.wires import HTTP_WIRES, Access

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]


def test_a_long_name_is_cut_wherever_it_is_logged() -> None:
    name = "z" * 90_000
    with served(Launch(script="search_server.py")) as server, closing(Access(server.url)) as access:
        for wire in HTTP_WIRES:
            with access.calling(wire, "?tool_search=on") as caller:
                caller.ask("tools/call", {"name": "call_tool", "arguments": {"name": name, "arguments": {}}})
                if wire != "modern":  # where names are in a header too, which the web server bounds
                    caller.ask("tools/call", {"name": name, "arguments": {}})
                    caller.ask("prompts/get", {"name": name})
                caller.ask("completion/complete", {"ref": {"type": "ref/prompt", "name": name}, "argument": {}})
        log = server.log
    assert "zzz" in log
    assert max(map(len, log.splitlines())) < 5_000
