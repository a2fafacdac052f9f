"""What features keep of a session: steps are applied to what there is, whoever was faster."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastmcp import Context

from agent_utilities import create_mcp_server
from agent_utilities.seam.session import Session
from agent_utilities.server.callers import shorten
from tests.every import every
from tests.server.in_process import web_of
from tests.wire.wires import INITIALIZE

pytestmark = pytest.mark.anyio


class TestUpdates:
    def test_a_step_that_another_overtook_is_applied_to_the_newer_value(self) -> None:
        session = Session()
        seen: list[int] = []

        def overtaken(value: int) -> int:
            seen.append(value)
            if len(seen) == 1:
                session.update("counts", 0, lambda other: other + 10)
            return value + 1

        assert session.update("counts", 0, overtaken) == 11
        assert seen == [0, 10]

    def test_a_report_changes_nothing_of_the_session(self) -> None:
        session = Session()
        session.update("names", (), lambda names: (*names, "git_log"))
        copied = session.as_it_stands()
        copied.update("names", (), lambda names: (*names, "git_diff"))
        assert session.get("names", ()) == ("git_log",)
        assert copied.get("names", ()) == ("git_log", "git_diff")


LONG = "é" * 300_000


class TestHandshakes:
    """What the SDK keeps of a handshake for as long as a session lasts."""

    @every(
        ("part", "name", "value"),
        [
            ("clientInfo", "name", LONG),
            ("clientInfo", "title", LONG),
            ("clientInfo", "version", LONG),
            ("clientInfo", "description", LONG),
            ("clientInfo", "websiteUrl", LONG),
            ("clientInfo", "icons", [{"src": f"data:image/png;base64,{LONG}"}]),
            ("capabilities", "experimental", {"x": {"y": LONG}}),
            ("capabilities", "extensions", {f"x/{n}": {} for n in range(10_000)}),
            ("", "protocolVersion", LONG),
            ("", "_meta", {"x": LONG}),
        ],
    )
    def test_are_cut_to_what_is_short(self, part: str, name: str, value: Any) -> None:
        params: dict[str, Any] = {"clientInfo": {"name": "x", "version": "1"}, "capabilities": {"roots": {}}}
        (params[part] if part else params)[name] = value
        assert shorten(params) == [f"{part}.{name}".lstrip(".")]
        assert len(json.dumps(params)) < 2_500

    def test_that_are_short_stay_as_they_are(self) -> None:
        extensions = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}
        info = {"name": "n" * 256, "version": "1", "icons": [{"src": "https://x.example/i.png"}]}
        params = {"protocolVersion": "2025-11-25", "capabilities": {"extensions": extensions}, "clientInfo": info}
        before = json.dumps(params)
        assert (shorten(params), json.dumps(params)) == ([], before)

    @every("params", [None, {}, {"clientInfo": "x", "capabilities": [1]}])
    def test_that_are_none_are_left_to_the_protocol(self, params: dict[str, Any] | None) -> None:
        assert shorten(params) == []

    async def test_are_told_what_was_cut_and_kept_without_it(self) -> None:
        server = create_mcp_server("notes", environ={})

        @server.tool
        def who(ctx: Context) -> str:
            params = ctx.session.client_params
            assert params is not None
            return json.dumps([params.client_info.name, params.capabilities.experimental])

        given = {"capabilities": {"experimental": {"x": {"y": LONG}}}, "clientInfo": {"name": LONG, "version": "1"}}
        body = {**INITIALIZE, "params": {**INITIALIZE["params"], **given}}
        headers = {"accept": "application/json, text/event-stream"}
        async with web_of(server) as web:
            opened = await web.post("/mcp", json=body, headers=headers)
            told = opened.json()["result"]["_meta"]["agent-utilities/selection"]
            headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            await web.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "who", "arguments": {}}}
            answer = (await web.post("/mcp", json=call, headers=headers)).json()["result"]
        assert told == {"cut": ["clientInfo.name", "capabilities.experimental"]}
        assert json.loads(answer["content"][0]["text"]) == ["é" * 256, None]
