"""What of a config is secret: by its name or by its looks, wherever people put it; and what plainly is none."""

from __future__ import annotations

from typing import Any

import mcp_types

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.secrets import secrets_of, without, without_secrets
from agent_utilities.gateway.upstreams.snapshot import Item, Snapshot
from tests.gateway.upstreams.snapshots import on_wire


def config(**fields: Any) -> UpstreamConfig:
    return UpstreamConfig(name="notes", source="mcp.json", transport="stdio", **fields)


def snapshot(*tools: Item, **fields: Any) -> Snapshot:
    return Snapshot(
        upstream="notes", config_digest="d", taken_at_s=0, protocol_version="2025-11-25", tools=tools, **fields
    )


SECRET = [
    ({"env": {"API_KEY": "topsecret"}}, "topsecret"),
    ({"env": {"NOTION": "s3cr3t"}}, "s3cr3t"),
    ({"env": {"DB_PASSWORD": "my key"}}, "my key"),
    (
        {"env": {"MCP_HEADERS": '{"Authorization": "Bearer ntn_abcdefgh", "Notion-Version": "2022-06-28"}'}},
        "ntn_abcdefgh",
    ),
    ({"env": {"DATABASE_URL": "postgres://me:opensesame@db/app"}}, "opensesame"),
    ({"env": {"DATABASE_URL": "postgres://me:open/sesame@db/app"}}, "postgres://me:open/sesame@db/app"),
    ({"headers": {"Authorization": "Bearer abcdefghij"}}, "abcdefghij"),
    ({"headers": {"Authorization": "Basic dXNlcjpwYXNz"}}, "dXNlcjpwYXNz"),
    ({"headers": {"X-Custom": "sk-4f9a8b7c6d"}}, "sk-4f9a8b7c6d"),
    ({"env": {"SETTING": "xoxb-abcdef-ghijkl"}}, "xoxb-abcdef-ghijkl"),
    ({"auth": "bearertokenvalue"}, "bearertokenvalue"),
    ({"args": ["--api-key", "abcdefghij"]}, "abcdefghij"),
    ({"args": ["--api-key=abcdefghij"]}, "abcdefghij"),
    ({"args": ["-e", "GITHUB_TOKEN=ghp_16C7e42F292c6912E7"]}, "ghp_16C7e42F292c6912E7"),
    ({"args": ["mcp-remote", "https://x.test/mcp", "--header", "Authorization: Bearer abcdefgh"]}, "abcdefgh"),
    ({"url": "https://x.test/mcp?api_key=abcdefgh"}, "abcdefgh"),
    ({"url": "https://x.test/mcp?k=a%2Fb1c2d3e4"}, "a/b1c2d3e4"),
    ({"url": "https://x.test/mcp?k=a%2Fb1c2d3e4"}, "a%2Fb1c2d3e4"),
    ({"url": "https://x.test/s/NzA2YTQ4ZGUtMWE5Zi00/mcp"}, "NzA2YTQ4ZGUtMWE5Zi00"),
    ({"url": "https://me:opensesame@x.test/mcp"}, "opensesame"),
]
PLAIN = [
    {"env": {"LANG": "en_US.UTF-8", "REGION": "us-east-1", "MODEL": "gpt-4o", "DEBUG": "true", "PORT": "8080"}},
    {"env": {"MAX_TOKENS": "4096", "ALLOWED_DIR": "/home/user123/project9x/notes", "HOME": "~/x1y2z3w4"}},
    {"headers": {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}},
    {"args": ["-y", "@modelcontextprotocol/server-filesystem@2025.11.25", "/home/user123/notes", "--verbose"]},
    {"args": ["mcp-server-git==2025.1.14", "--repository", "C:\\Users\\me123456"]},
    {"url": "https://mcp.example.com/mcp?toolsets=git,time", "auth": "oauth"},
]


class TestSecretsOf:
    def test_finds_what_is_secret(self) -> None:
        for fields, secret in SECRET:
            assert secret not in without(secrets_of(config(**fields)), f"I was given {secret}, thanks")

    def test_leaves_what_is_plain(self) -> None:
        for fields in PLAIN:
            assert secrets_of(config(**fields)) == ()


class TestWithoutSecrets:
    def test_one_that_json_spells_otherwise_is_hidden(self) -> None:
        for secret in ['qu"ote-1x', "back\\slash-1x", "ümlaut-1x", "tab\t-1x", "del\x7f-1x"]:
            cleaned = without_secrets(snapshot(instructions=f"It is {secret}."), [secret])
            assert cleaned.instructions == "It is [hidden]."

    def test_a_secret_is_hidden_wherever_a_text_tells_it(self) -> None:
        tool = on_wire(
            mcp_types.Tool(
                name="find",
                description='with key "s3cr3t-value"',
                input_schema={"type": "object", "properties": {"s3cr3t-value": {"default": ["s3cr3t-value"]}}},
            )
        )
        told = snapshot(
            tool, instructions="s3cr3t-value", server_info={"name": "s3cr3t-value"}, problems=("s3cr3t-value",)
        )
        cleaned = without_secrets(told, ["s3cr3t-value"])
        assert "s3cr3t-value" not in cleaned.model_dump_json()
        assert cleaned.tools[0]["description"] == 'with key "[hidden]"'
        assert cleaned.digest != told.digest

    def test_a_component_that_is_named_by_a_secret_is_left_out_and_told(self) -> None:
        tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("find", "get_s3cr3t-value")]
        cleaned = without_secrets(snapshot(*tools), ["s3cr3t-value"])
        assert [tool["name"] for tool in cleaned.tools] == ["find"]
        assert cleaned.problems == ("1 of tools left out: a secret of the config stands in its name or address",)

    def test_without_one_it_is_the_same_snapshot(self) -> None:
        told = snapshot({"name": "find", "inputSchema": {"type": "object"}})
        assert without_secrets(told, ["s3cr3t-value"]) is told
