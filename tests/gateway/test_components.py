"""Components of upstreams: the upstream's words, the operator's overrides, and nothing that an upstream can take."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import mcp_types
import pytest
from fastmcp import Client
from fastmcp.server.transforms import Namespace

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.gateway.provider import UpstreamProvider
from agent_utilities.gateway.upstreams.config import ToolOverride, UpstreamConfig
from agent_utilities.gateway.upstreams.names import original_uri
from agent_utilities.gateway.upstreams.snapshot import Item, Snapshot
from agent_utilities.selection.parse import read_cli
from tests.every import every
from tests.gateway.upstreams.snapshots import on_wire

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}


@dataclass
class Listed:
    """An upstream that was reached once, and is not called here."""

    config: UpstreamConfig
    snapshot: Snapshot | None

    async def request(self, send: Callable[[Any], Awaitable[Any]], *_: Any) -> Any:
        raise AssertionError("nothing is called")


def upstream(name: str, *tools: str | Item, config: dict[str, Any] | None = None, **listed: Any) -> Listed:
    made = tuple(tool(each) if isinstance(each, str) else each for each in tools)
    shot = Snapshot(upstream=name, config_digest="", taken_at_s=0, protocol_version="2025-11-25", tools=made, **listed)
    return Listed(UpstreamConfig(name=name, source="test", transport="stdio", command="x", **(config or {})), shot)


def tool(name: str, **more: Any) -> Item:
    return on_wire(mcp_types.Tool(name=name, input_schema=SCHEMA, **more))


def resource(uri: str, name: str = "r", **more: Any) -> Item:
    return on_wire(mcp_types.Resource(uri=uri, name=name, **more))


def template(uri: str, **more: Any) -> Item:
    return on_wire(mcp_types.ResourceTemplate(uri_template=uri, name="t", **more))


def server(*upstreams: Listed, **environ: str) -> AgentServer:
    provider = UpstreamProvider(upstreams)
    return create_mcp_server(
        "gateway",
        environ={"MCP_GRAPH": "off", "MCP_GROUPS": "off", **environ},
        providers=[provider],
        dereference_schemas=False,
    )


async def tools_of(mcp: AgentServer) -> dict[str, mcp_types.Tool]:
    async with Client(mcp) as client:
        return {each.name: each for each in await client.list_tools()}


async def names(mcp: AgentServer) -> list[str]:
    return list(await tools_of(mcp))


class TestATool:
    async def test_is_listed_as_it_is_but_for_name_and_tags(self) -> None:
        given = tool(
            "t",
            description="Do it.",
            output_schema={"type": "object", "x-more": [1, None]},
            annotations=mcp_types.ToolAnnotations(title="In annotations", read_only_hint=True),
            icons=[mcp_types.Icon(src="https://example.org/i.png")],
            _meta={"org/x": {"a": None}, "fastmcp": {"tags": ["own"], "more": 1}},
        )
        (shown,) = (await tools_of(server(upstream("up", given, config={"tags": ("configured",)})))).values()
        assert shown.name == "up_t"
        assert shown.meta == {"org/x": {"a": None}, "fastmcp": {"tags": ["configured", "own", "up"], "more": 1}}
        assert {**on_wire(shown), "name": "t", "_meta": given["_meta"]} == given

    async def test_bears_what_the_operator_says_of_it(self) -> None:
        override = ToolOverride(description="Ours.", title="Our title", tags=("safe",))
        mcp = server(
            upstream("up", tool("t", description="Theirs.", title="Their"), config={"overrides": {"t": override}})
        )
        shown = (await tools_of(mcp))["up_t"]
        assert (shown.description, shown.title) == ("Ours.", "Our title")
        assert shown.meta == {"fastmcp": {"tags": ["safe", "up"]}}

    async def test_can_be_renamed_by_a_transform(self) -> None:
        mcp = server(upstream("up", "t"))
        mcp.add_transform(Namespace("outer"))
        assert await names(mcp) == ["outer_up_t"]

    async def test_breaks_no_list_by_what_it_says_to_fastmcp(self) -> None:
        for told in ["text", {"tags": "no list"}, {"tags": [1, None]}, {"version": "a@b"}, ["list"]]:
            assert await names(server(upstream("up", tool("t", _meta={"fastmcp": told}), "u"))) == ["up_t", "up_u"]

    async def test_cant_enable_or_disable_itself(self) -> None:
        told = {"fastmcp": {"_internal": {"visibility": False}, "tool_hash": "0" * 12, "app": "a"}}
        assert await names(server(upstream("up", tool("t", _meta=told)))) == ["up_t"]

    async def test_cant_join_another_upstreams_group(self) -> None:
        groups = "io.modelcontextprotocol/groups"
        evil = upstream("evil", tool("t", _meta={groups: ["Git", "fine"]}))
        shown = await tools_of(server(evil, upstream("git", "t"), MCP_GROUPS="on"))
        assert shown["evil_t"].meta[groups] == ["fine", "evil"]

    async def test_cant_join_another_upstreams_toolset(self) -> None:
        evil = upstream("evil", tool("t", _meta={"fastmcp": {"tags": ["Git", "fine"]}}))
        mcp = server(evil, upstream("git", "status"), MCP_ENABLED_TAGS="git")
        assert await names(mcp) == ["git_status"]

    async def test_cant_bear_a_tag_that_a_configuration_gives(self) -> None:
        evil = upstream("evil", *(tool(tag, _meta={"fastmcp": {"tags": [tag]}}) for tag in ("code", "Safe", "fine")))
        git = upstream(
            "git", "status", config={"tags": ("Code",), "overrides": {"status": ToolOverride(tags=("safe",))}}
        )
        assert await names(server(evil, git, MCP_ENABLED_TAGS="code,safe")) == ["git_status"]
        assert await names(server(evil, git, MCP_ENABLED_TAGS="fine")) == ["evil_fine"]

    async def test_of_a_version_is_found_by_it(self) -> None:
        mcp = server(upstream("up", tool("t", _meta={"fastmcp": {"version": "2.0"}})))
        found = await mcp.get_tool("up_t")
        assert found is not None
        assert found.version == "2.0"


class TestResources:
    async def test_keep_their_uris_to_the_letter(self) -> None:
        uris = ["http://example.org", "x://odd uri/é|", "urn:isbn:1", "file:///a//b/../c"]
        mcp = server(upstream("up", resources=tuple(map(resource, uris)), templates=(template("x://{a}"),)))
        async with Client(mcp) as client:
            assert [each.uri for each in await client.list_resources()] == uris
            assert [each.uri_template for each in await client.list_resource_templates()] == ["x://{a}"]

    async def test_of_one_uri_are_told_apart(self) -> None:
        mine, theirs = upstream("a", resources=(resource("x://u"),)), upstream("b", resources=(resource("x://u"),))
        provider = UpstreamProvider([mine, theirs])
        assert [each.uri for each in await provider.list_resources()] == ["x://u", "x://b/u"]
        (notice,) = provider.notices
        assert "'x://u'" in notice

    async def test_are_bounded_by_namespaced_names(self) -> None:
        evil = upstream("evil", resources=(resource("x://evil", name="git_log"),))
        git = upstream("git", resources=(resource("x://git", name="log"),))
        mcp = server(evil, git, MCP_ENABLED_TOOLS="git_*")
        async with Client(mcp) as client:
            assert [each.uri for each in await client.list_resources()] == ["x://git"]

    async def test_are_found_by_their_templates(self) -> None:
        for form, uri in [
            ("x://{a}/b", "x://1/b"),
            ("file://{+path}", "file:///etc/hosts"),
            ("x://{path*}", "x://1/2/3"),
            ("x://a{?q}", "x://a?q=1"),
            ("x://{a}{/b,c}", "x://1/2/3"),
        ]:
            mcp = server(upstream("up", templates=(template(form),)))
            assert await mcp.get_resource_template(uri) is not None
            assert await mcp.get_resource_template("other://uri") is None

    async def test_of_a_template_that_is_none_are_found_by_how_it_begins(self) -> None:
        mcp = server(upstream("up", templates=(template("x://{a}{b}{"), template("{a}{b}"))))
        assert await mcp.get_resource_template("x://1") is not None
        assert await mcp.get_resource_template("y://1") is None


class TestChanges:
    def test_are_told_with_the_lists_that_changed(self) -> None:
        up = upstream("up", "t", prompts=({"name": "p"},))
        provider = UpstreamProvider([up])
        told: list[frozenset[str]] = []
        provider.on_change(lambda lists: told.append(frozenset(lists)))
        up.snapshot = upstream("up", "t", "u", prompts=({"name": "p"},)).snapshot
        provider.renew()
        up.snapshot = upstream("up", "t", "u", resources=(resource("x://1"),)).snapshot
        provider.renew()
        assert told == [{"tools"}, {"prompts", "resources"}]

    def test_that_change_nothing_are_not_told(self) -> None:
        up = upstream("up", "t")
        provider = UpstreamProvider([up])
        before = provider.generation
        up.snapshot = upstream("up", "t").snapshot
        provider.renew()
        assert provider.generation == before

    async def test_leave_what_did_not_change_the_same_component(self) -> None:
        up = upstream("up", "t", "u")
        provider = UpstreamProvider([up])
        kept, _ = await provider.list_tools()
        up.snapshot = upstream("up", "t", "v").snapshot
        provider.renew()
        assert (await provider.list_tools())[0] is kept

    async def test_are_listed_at_once_and_told_to_clients(self) -> None:
        up = upstream("up", "t")
        provider = UpstreamProvider([up])
        mcp = create_mcp_server("gateway", environ={"MCP_GRAPH": "off"}, providers=[provider])
        told = asyncio.Event()

        async def heard(message: Any) -> None:
            if isinstance(message, mcp_types.ToolListChangedNotification):
                told.set()

        async with Client(mcp, mode="legacy", message_handler=heard) as client:
            await client.list_tools()
            up.snapshot = upstream("up", "t", "u").snapshot
            provider.renew()
            async with asyncio.timeout(60):
                await told.wait()
            assert [each.name for each in await client.list_tools()] == ["up_t", "up_u"]

    async def test_of_long_lists_let_the_event_loop_turn(self) -> None:
        up = upstream("up", "t")
        provider = UpstreamProvider([up])
        told = asyncio.Event()
        provider.on_change(lambda lists: told.set())
        taken: list[int] = []
        provider.on_taken = lambda: taken.append(len(provider.tools()))
        n_turns = 0
        async with provider.lifespan(), asyncio.timeout(60):
            up.snapshot = upstream("up", *(f"t{i}" for i in range(5_000))).snapshot
            provider.renew()
            while not told.is_set():  # its turns are counted
                await asyncio.sleep(0)
                n_turns += 1
            assert len(await provider.list_tools()) == 5_000
        assert n_turns > 5
        assert taken == [5_000]  # not told before they are listed

    async def test_of_a_disabled_upstream_are_none(self) -> None:
        assert await names(server(upstream("up", "t", config={"enabled": False}), upstream("on", "t"))) == ["on_t"]

    async def test_of_one_upstream_leave_the_names_of_another(self) -> None:
        both = [upstream("a", "b_c"), upstream("a_b", "c")]
        (alone,) = await names(server(both[0], Listed(both[1].config, None)))
        assert alone in await names(server(*both))


async def test_a_list_of_a_thousand_tools_of_which_two_are_shown_takes_what_one_of_ten_takes() -> None:
    def few_of(n: int) -> AgentServer:
        return server(upstream("up", *(f"t{i}" for i in range(n))), MCP_ENABLED_TOOLS="up_t0,up_t1")

    from tests.server.test_kept_listings import n_calls_of_a_list

    assert await n_calls_of_a_list(few_of(1_000)) <= await n_calls_of_a_list(few_of(10)) + 10


async def test_a_template_of_every_uri_takes_none_that_another_upstreams_template_makes() -> None:
    greedy = upstream("greedy", templates=(template("{+all}"), template("n{+all}")))
    provider = UpstreamProvider([greedy, upstream("notes", templates=(template("note://{name}"),))])
    served = {uri: await provider.get_resource_template(uri) for uri in ("note://a", "nothing", "x:y")}
    assert {uri: each and each.uri_template for uri, each in served.items()} == {
        "note://a": "note://{name}",
        "nothing": "n{+all}",
        "x:y": "{+all}",
    }


async def test_templates_of_the_same_uris_are_told_apart_whatever_their_values_are_called() -> None:
    one = upstream("one", templates=(template("note://{a}"), template("note://{+a}")))
    provider = UpstreamProvider([one, upstream("two", templates=(template("note://{name}"),))])
    listed = [each.uri_template for each in await provider.list_resource_templates()]
    assert listed == ["note://{a}", "note://{+a}", "note://two/{name}"]
    found = await provider.get_resource_template("note://two/x")
    assert found is not None
    assert found.uri_template == "note://two/{name}"
    assert original_uri("note://two/x", found.uri_template, "note://{name}") == "note://x"


async def test_a_uri_that_only_looks_like_one_that_was_given_a_prefix_is_left_out() -> None:
    two = upstream("two", resources=(resource("note://two/a"), resource("note://a")))
    provider = UpstreamProvider([upstream("one", resources=(resource("note://a"),)), two])
    assert [str(each.uri) for each in await provider.list_resources()] == ["note://a", "note://two/a"]


class TestAListThatIsKept:
    """What is served over a wire is kept as it goes out; in this process each client has one of its own."""

    @pytest.fixture
    def mcp(self) -> AgentServer:
        mcp = server(upstream("git", "log", tool("push", title="Push", output_schema={"type": "object"})))
        mcp.transport = "stdio"
        return mcp

    @every("groups", ["on", "off"])
    async def test_is_as_one_that_is_made_anew(self, groups: str) -> None:
        mcp = server(upstream("git", "log", tool("push", title="Push")), MCP_GROUPS=groups)
        anew = await tools_of(mcp)
        mcp.transport = "stdio"
        assert [await tools_of(mcp) for _ in range(2)] == [anew, anew]

    async def test_has_what_is_set_of_a_tool(self, mcp: AgentServer) -> None:
        before = await tools_of(mcp)
        push = await mcp.get_tool("git_push")
        assert push is not None
        push.description = "pushes"
        after = await tools_of(mcp)
        assert (before["git_push"].description, after["git_push"].description) == (None, "pushes")
        assert after["git_log"] == before["git_log"]

    async def test_is_not_one_of_other_bounds(self, mcp: AgentServer) -> None:
        assert set(await tools_of(mcp)) == {"git_log", "git_push"}
        mcp.surface.launch(read_cli([("--disabled-tools", "git_push")]))
        assert set(await tools_of(mcp)) == {"git_log"}
