"""Capabilities' servers on a gateway: shared where they are one, renamed where a name is taken, never half there."""

from __future__ import annotations

from pathlib import Path

from agent_utilities.gateway.capabilities.model import Capabilities, Capability, CapabilityServer
from agent_utilities.gateway.capabilities.servers import CapabilityServers, servers_of
from agent_utilities.gateway.upstreams.config import UpstreamConfig

FOLDER = Path("/work/project")


def server(name: str = "code", command: str = "code-mcp", **entry: object) -> CapabilityServer:
    return CapabilityServer(
        name, {"type": "stdio", "command": command, **entry}, source=f"x/x.toml: mcp.servers.{name}"
    )


def capability(name: str, *servers: CapabilityServer, **fields: object) -> Capability:
    return Capability(name, f"capabilities/{name}/x.toml", Path(name), servers=servers, **fields)


def placed(*capabilities: Capability, own: tuple[UpstreamConfig, ...] = (), **environ: str) -> CapabilityServers:
    return servers_of(Capabilities({each.name: each for each in capabilities}), own, environ, FOLDER)


def own(name: str, **fields: object) -> UpstreamConfig:
    return UpstreamConfig(name=name, source=f"mcp.json: {name}", transport="stdio", command="own", **fields)


class TestAServer:
    def test_is_an_upstream_as_an_mcp_json_would_have_it(self):
        placing = placed(capability("search", server(args=["-y", "x"], env={"A": "1"}, timeoutSeconds=60.0)))
        config = placing.configs["code"]
        assert (config.transport, config.command) == ("stdio", "code-mcp")
        assert [arg.get_secret_value() for arg in config.args] == ["-y", "x"]
        assert config.env["A"].get_secret_value() == "1"
        assert config.timeout_s == 60.0
        assert config.source == "x/x.toml: mcp.servers.code"

    def test_runs_in_the_gateways_folder_not_in_the_tap(self):
        assert placed(capability("search", server())).configs["code"].cwd == str(FOLDER)

    def test_bears_its_capability_as_a_tag_and_its_description(self):
        config = placed(capability("search", server(), description="Search code.")).configs["code"]
        assert (config.tags, config.description) == (("search",), "Search code.")

    def test_knows_the_tools_that_its_capability_wants(self):
        config = placed(capability("search", server(), allowed_tools=("code:find_*", "docs:*"))).configs["code"]
        assert config.capabilities == {"search": ("find_*",)}

    def test_that_no_tools_are_wanted_of_is_left_out_and_told(self):
        placing = placed(capability("search", server(), server("docs"), allowed_tools=("docs:*",)))
        assert list(placing.configs) == ["docs"]
        assert "none of its tools are wanted" in placing.notices[0]


class TestVariables:
    def test_are_filled_in_and_hidden(self):
        entry = {"type": "http", "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${env:KEY}"}}
        placing = placed(capability("search", CapabilityServer("s", entry)), KEY="s3cret")
        assert placing.configs["s"].headers["Authorization"].get_secret_value() == "Bearer s3cret"
        assert "s3cret" not in repr(placing)

    def test_that_are_not_set_make_a_capability_unavailable_by_name(self):
        placing = placed(capability("search", server(env={"KEY": "${env:SEARCH_KEY}"})), capability("b", server("b")))
        assert "the variable SEARCH_KEY is not set; set it" in placing.unavailable["search"]
        assert list(placing.configs) == ["b"]
        assert placing.by_capability == {"b": ("b",)}

    def test_with_defaults_need_not_be_set(self):
        assert placed(capability("mail", server(env={"C": "${C:-c}"}))).unavailable == {}

    def test_that_are_places_are_set(self):
        assert placed(capability("mail", server(args=["${workspaceFolder}/a", "${cwd}"]))).unavailable == {}

    def test_that_are_not_set_leave_none_of_the_capabilitys_servers(self):
        placing = placed(capability("search", server("good"), server("bad", args=["${env:GONE}"])))
        assert placing.configs == {}

    def test_hold_values_that_are_not_looked_into_for_more(self):
        for value in ["${env:OTHER}", "{{ENV:OTHER}}", "${OTHER:-x}", "$(id)"]:
            placing = placed(capability("search", server(env={"KEY": "${env:KEY}"})), KEY=value, OTHER="s3cret")
            assert placing.configs["code"].env["KEY"].get_secret_value() == value

    def test_never_tell_their_values_in_what_is_wrong(self):
        entry = {"type": "http", "url": "${env:ADDRESS}"}
        placing = placed(capability("search", CapabilityServer("s", entry)), ADDRESS="ftp://user:s3cret@x")
        assert placing.unavailable.keys() == {"search"}
        assert "s3cret" not in placing.unavailable["search"]


class TestNames:
    def test_of_one_server_are_one_that_two_capabilities_share(self):
        read = capability("read", server(), allowed_tools=("code:read_*",), description="Read.")
        write = capability("write", server(timeoutSeconds=400.0), allowed_tools=("code:write_*",), description="Write.")
        placing = placed(read, write)
        assert placing.by_capability == {"read": ("code",), "write": ("code",)}
        config = placing.configs["code"]
        assert config.capabilities == {"read": ("read_*",), "write": ("write_*",)}
        assert (config.tags, config.description, config.timeout_s) == (("read", "write"), "Read. Write.", 400.0)
        assert placing.notices == []

    def test_that_another_capabilitys_server_has_get_the_capabilitys_before_them(self):
        placing = placed(capability("a", server()), capability("b", server(command="other")))
        assert placing.by_capability == {"a": ("code",), "b": ("b_code",)}
        assert placing.configs["b_code"].name == "b_code"
        assert "'code' is taken, and it is named 'b_code'" in placing.notices[0]

    def test_that_the_gateways_own_server_has_get_the_capabilitys_before_them(self):
        placing = placed(capability("a", server("Git")), own=(own("git"),))
        assert placing.by_capability == {"a": ("a_Git",)}

    def test_that_begin_like_those_of_a_server_with_a_prefix_of_its_own_are_taken(self):
        placing = placed(capability("search", server("g", prefix="")), own=(own("git", prefix="g"),))
        assert {name: config.prefix for name, config in placing.configs.items()} == {"search_g": None}

    def test_are_never_taken_twice(self):
        placing = placed(
            capability("b", server()), capability("c", server(command="d")), own=(own("code"), own("b_code"))
        )
        assert placing.by_capability == {"b": ("b_code_2",), "c": ("c_code",)}

    def test_are_no_longer_than_a_servers_may_be(self):
        long = "c" * 100
        placing = placed(*(capability(f"{long}{i}", server("s" * 100, command=f"run-{i}")) for i in range(3)))
        assert sorted(len(name) for name in placing.configs) == [100, 128, 128]

    def test_are_shared_by_different_environments_never(self):
        placing = placed(capability("a", server(env={"A": "1"})), capability("b", server(env={"A": "2"})))
        assert list(placing.configs) == ["code", "b_code"]


class TestTheGatewaysOwn:
    def test_are_referred_to_with_the_tools_that_are_wanted(self):
        placing = placed(capability("a", server_refs=("git",), allowed_tools=("git:log",)), own=(own("git"),))
        assert placing.own == {"a": {"git": ("log",)}}
        assert placing.by_capability == {"a": ()}

    def test_that_are_not_there_are_told_and_left_out(self):
        placing = placed(capability("a", server(), server_refs=("code", "core")))
        assert placing.by_capability == {"a": ("code",)}
        assert "the server 'core' is neither the bundle's nor the gateway's own" in placing.notices[0]

    def test_that_are_all_there_would_be_and_are_not_make_a_capability_unavailable(self):
        placing = placed(capability("a", server_refs=("core",)))
        assert "needs core, which is none of the gateway's own servers; add it" in placing.unavailable["a"]
        assert placing.notices == []

    def test_stand_in_for_those_that_are_built_into_another_host(self):
        planning = capability("planning", server_refs=("planner",), built_in=("planner",))
        placing = placed(planning, own=(own("planner"),))
        assert (placing.own, placing.unavailable) == ({"planning": {"planner": ("*",)}}, {})

    def test_that_are_switched_off_do_not_count(self):
        placing = placed(capability("a", server_refs=("git",)), own=(own("git", enabled=False),))
        assert placing.unavailable.keys() == {"a"}


class TestWhatIsBuiltIntoAnotherHost:
    def test_is_no_advice_to_add_what_stands_in_the_bundle(self):
        placing = placed(capability("planning", server_refs=("planner",), built_in=("planner",)))
        (why,) = placing.unavailable.values()
        assert why == (
            "planning/x.toml: needs planner, which is built into another host; "
            "it works here only beside a server of that name in the gateway's config"
        )
        assert placing.notices == []

    def test_is_told_once_where_a_bundle_has_servers_besides(self):
        placing = placed(capability("a", server(), server_refs=("code", "planner"), built_in=("planner",)))
        assert placing.by_capability == {"a": ("code",)}
        assert placing.notices == [
            "a/x.toml: roles.mcp.server_refs: the server 'planner' is built into another host, and is left out",
        ]

    def test_needs_no_reference_to_be_named(self):
        placing = placed(capability("planning", built_in=("planner", "agent")))
        assert "needs planner, agent, which are built into another host" in placing.unavailable["planning"]

    def test_needs_no_reference_to_be_stood_in_for(self):
        assert placed(capability("planning", built_in=("planner",)), own=(own("planner"),)).unavailable == {}


def test_a_toolchain_is_available_and_brings_no_server():
    placing = placed(capability("docker", require=("docker/docker",)))
    assert (placing.by_capability, placing.unavailable) == ({"docker": ()}, {})
