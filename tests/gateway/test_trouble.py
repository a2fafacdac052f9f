"""What a caller gets where an upstream fails, and what he can't get past the bounds, whatever the eras."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from tests.every import every
from tests.gateway.gateways import LONG_S, Served, served
from tests.gateway.upstreams.supervised import script
from tests.wire.http_raw import RawHttp
from tests.wire.wires import ModernCaller

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

both_eras = every("mode", ["legacy", "auto"])


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served(
        script("dies", "faulty_server.py", "die-in-call", "stderr=last words"),
        script("hangs", "faulty_server.py", "hang-at-call", timeout_s=0.5),
        script("well", "faulty_server.py", max_message_bytes=65 << 20),
        script("old", "asking_server.py"),
        script("legacy", "asking_server.py"),
        script("auto", "asking_server.py"),
        script("asked", "asking_server.py"),
    ) as made:
        yield made


def client_of(gateway: Served, mode: str = "auto", query: str = "", **options: Any) -> Client[Any]:
    return Client(f"{gateway.url}/mcp{query}", mode=mode, **options)


def text(result: mcp_types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, mcp_types.TextContent)
    return content.text


@both_eras
class TestAFailure:
    async def test_is_an_error_result_that_names_the_upstream(self, gateway: Served, mode: str) -> None:
        for upstream in ["dies", "hangs"]:
            async with client_of(gateway, mode) as client:
                result = await client.call_tool_mcp(f"{upstream}_echo", {"text": "x"})
            assert result.is_error
            assert f"upstream '{upstream}'" in text(result)
            assert "Traceback" not in text(result)

    async def test_of_one_upstream_is_not_anothers(self, gateway: Served, mode: str) -> None:
        async with client_of(gateway, mode) as client:
            _, result = await asyncio.gather(
                client.call_tool_mcp("dies_echo", {"text": "x"}), client.call_tool_mcp("well_echo", {"text": "x"})
            )
        assert text(result) == "x"


@both_eras
class TestBounds:
    async def test_cut_lists_by_toolset(self, gateway: Served, mode: str) -> None:
        async with client_of(gateway, mode, "?toolsets=well") as client:
            listed = [tool.name for tool in await client.list_tools()]
            assert listed
            assert all(name.startswith("well_") for name in listed)
            resources = [resource.uri for resource in await client.list_resources()]
            assert resources == ["note://well/a"]

    async def test_refuse_calls_as_of_tools_that_never_were(self, gateway: Served, mode: str) -> None:
        for name in ["old_meta", "old_META", "meta", "well__old_meta", "old-meta"]:
            async with client_of(gateway, mode, "?toolsets=well") as client:
                refused = await client.call_tool_mcp(name, {})
                unknown = await client.call_tool_mcp("no_such_tool", {})
            assert refused.is_error
            assert text(refused).replace(name, "") == text(unknown).replace("no_such_tool", "")

    async def test_refuse_prompts_resources_and_completions(self, gateway: Served, mode: str) -> None:
        async with client_of(gateway, mode, "?toolsets=well") as client:
            with pytest.raises(MCPError):
                await client.get_prompt("old_ask", {"city": "x"})
            for uri in ("ask://odd%20uri/A", "ask://x/y"):
                with pytest.raises(MCPError):
                    await client.read_resource(uri)
            reference = mcp_types.PromptReference(type="ref/prompt", name="old_ask")
            assert (await client.complete(reference, {"name": "city", "value": "x"})).values == []

    async def test_in_meta_hold_for_one_call(self, gateway: Served, mode: str) -> None:
        meta = {"agent-utilities/selection": {"disabled_tools": "old_*"}}
        async with client_of(gateway, mode) as client:
            refused = await client.call_tool_mcp("old_meta", {}, meta=meta)
            served = await client.call_tool_mcp("old_meta", {})
        assert refused.is_error
        assert not served.is_error


@both_eras
class TestPassedOn:
    async def test_completions_are_the_upstreams(self, gateway: Served, mode: str) -> None:
        prompt = mcp_types.PromptReference(type="ref/prompt", name="old_ask")
        template = mcp_types.ResourceTemplateReference(type="ref/resource", uri="ask://{city}/{+path}")
        async with client_of(gateway, mode) as client:
            done = await client.complete(prompt, {"name": "city", "value": "U"}, context_arguments={"land": "de"})
            assert done.values == ["ask city=U [('land', 'de')]"]
            assert (done.total, done.has_more) == (7, True)
            done = await client.complete(template, {"name": "city", "value": "U"})
            assert done.values == ["ask://{city}/{+path} city=U []"]

    async def test_resources_are_the_upstreams(self, gateway: Served, mode: str) -> None:
        async with client_of(gateway, mode) as client:
            for uri in ("ask://odd%20uri/A", "ask://ulm/a/b"):
                result = await client.read_resource_mcp(uri)
                told, blob = result.contents
                assert told == mcp_types.TextResourceContents(
                    uri=uri, text="text", mime_type="text/x-odd", _meta={"a": 1}
                )
                assert blob == mcp_types.BlobResourceContents(uri=uri + "#2", blob="AAEC")
                assert result.meta is not None
                assert result.meta["their.org/key"] == 2

    async def test_an_error_of_a_resource_is_the_upstreams(self, gateway: Served, mode: str) -> None:
        async with client_of(gateway, mode) as client:
            with pytest.raises(MCPError) as raised:
                await client.read_resource_mcp("ask://ulm/absent")
        error = raised.value.error
        assert (error.code, error.message, error.data) == (-32002, "no such resource", {"uri": "ask://ulm/absent"})


@every(
    ("mode", "upstream", "options"),
    [("legacy", "legacy", {}), ("auto", "auto", {}), ("auto", "asked", {"roots": ["file:///home"]})],
)
async def test_a_cancelled_call_is_cancelled_at_its_upstream(
    gateway: Served, mode: str, upstream: str, options: dict[str, Any]
) -> None:
    async with client_of(gateway, mode, **options) as client, asyncio.timeout(LONG_S):
        call = asyncio.create_task(client.call_tool_mcp(f"{upstream}_wait", {}))
        await client.call_tool_mcp(f"{upstream}_waiting", {})
        call.cancel()
        assert text(await client.call_tool_mcp(f"{upstream}_cancelled", {})) == "it was cancelled"
        await asyncio.gather(call, return_exceptions=True)


def test_a_large_result_is_whole(gateway: Served) -> None:
    n = 64 << 20
    with closing(RawHttp(gateway.url)) as http:
        result = ModernCaller(http, "", ()).ask("tools/call", {"name": "well_big", "arguments": {"n": n}}).result
    assert len(result["content"][0]["text"]) == n
