"""The table of fields: DESIGN's spellings, each read in its channel."""

from __future__ import annotations

import pytest

from agent_utilities.selection.channels import FIELDS, META_KEY, near_miss, spellings
from agent_utilities.selection.model import CHANNELS, Channel, NameSet, Selection
from agent_utilities.selection.parse import read_cli, read_env, read_meta, read_request

EVERY = [(channel, key, field) for channel in CHANNELS for key, field in spellings(channel)]
TEXT = {"names": "git_log", "tags": "read", "flag": "true", "text": "some words", "count": "3"}
READ = {"tags": NameSet(frozenset({"read"})), "flag": True, "text": ("some words",), "count": 3}


def read(channel: Channel, key: str, text: str) -> Selection:
    match channel:
        case "env":
            return read_env({key: text})
        case "cli":
            return read_cli([(key, text)])
        case "query":
            return read_request(f"{key}={text}".replace(" ", "+").encode(), ())
        case "header":
            return read_request(b"", ((key.encode(), text.encode()),))
        case "meta":
            return read_meta({META_KEY: {key: text}})


class TestSpellings:
    def test_each_is_read_into_its_field(self):
        wrong = []
        for channel, key, field in EVERY:
            setting = read(channel, key, TEXT[field.kind]).get(field.name, channel)
            names = NameSet(toolsets=frozenset({"git_log"})) if "toolsets" in key else NameSet(frozenset({"git_log"}))
            if setting is None or setting.value != READ.get(field.kind, names):
                wrong.append((channel, key, setting))
        assert wrong == []

    def test_each_is_remembered_as_the_origin(self):
        origins = {
            (channel, key): read(channel, key, TEXT[field.kind]).get(field.name, channel).origins
            for channel, key, field in EVERY
        }
        assert [spelled for spelled, given in origins.items() if [o.split(" ")[1] for o in given] != [spelled[1]]] == []

    def test_no_spelling_means_two_fields(self):
        for channel in CHANNELS:
            keys = [key for key, _ in spellings(channel)]
            assert sorted(keys) == sorted(set(keys))

    def test_every_field_has_every_channel(self):
        assert all(field.spellings(channel) for field in FIELDS for channel in CHANNELS)


class TestKeys:
    @pytest.mark.parametrize("key", ["DISABLED_TAGS", "disabled-tags", "Disabled-Tags"])
    def test_query_keys_ignore_case_and_dashes(self, key):
        assert read("query", key, "write").get("deny_tags", "query") is not None

    @pytest.mark.parametrize(
        ("channel", "key", "meant"),
        [
            ("query", "tool", "tools"),
            ("query", "disabled_tool", "disabled_tools"),
            ("query", "readonly", "read_only"),
            ("header", "x-mcp-enabled-tool", "x-mcp-enabled-tools"),
            ("header", "x-mcp-disable-tags", "x-mcp-disabled-tags"),
            ("env", "MCP_READONLY", "MCP_READ_ONLY"),
            ("env", "MCP_ENABLED_TOOL", "MCP_ENABLED_TOOLS"),
        ],
    )
    def test_a_misspelling_has_a_nearest_spelling(self, channel, key, meant):
        assert near_miss(key, channel) == meant

    @pytest.mark.parametrize(
        ("channel", "key"),
        [
            ("query", "session_id"),
            ("query", "token"),
            ("query", "api_key"),
            ("query", "profile"),
            ("query", "code"),
            ("header", "x-mcp-session"),
            ("header", "x-mcp-proxy-auth"),
            ("env", "MCP_SERVER_URL"),
            ("env", "MCP_TIMEOUT"),
        ],
    )
    def test_other_keys_are_not_taken_for_misspellings(self, channel, key):
        assert near_miss(key, channel) is None
