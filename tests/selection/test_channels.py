"""The table of fields: DESIGN's spellings, each read in its channel."""

from __future__ import annotations

from itertools import product
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_utilities.selection.active import AUTO, Active
from agent_utilities.selection.channels import FIELDS, META_KEY, field_of, is_selection_header, near_miss, spellings
from agent_utilities.selection.model import WRITTEN, BoundName, Channel, NameSet, Selection
from agent_utilities.selection.parse import read_cli, read_env, read_meta, read_request
from agent_utilities.selection.profiles import read_fields

FOREIGN_VARIABLES = [
    "MCP_HOST", "MCP_PORT", "MCP_STRICT", "MCP_CACHE_MB", "MCP_ALLOWED_HOSTS", "MCP_ALLOWED_ORIGINS", "MCP_RANKER",
    "MCP_GRAPH", "MCP_TRANSPORT", "MCP_LOG_LEVEL", "MCP_DEBUG", "MCP_ENABLED", "MCP_DISABLED", "MCP_TOOL_TIMEOUT",
    "MCP_TOOLS_DIR", "MCP_ENABLE_TOOL_CACHE", "MCP_ALLOWED_TOKENS", "MCP_MODE", "MCP_READ_TIMEOUT", "MCP_PROXY_URL",
    "MCP_EMBEDDINGS_API_KEY", "MCP_SELECTION_POLICY", "MCP_STAGE", "MCP_POOLS", "MCP_TABS", "MCP_SEARCH_URL",
    "MCP_SEARCH_KEY", "MCP_NO_PROMPT", "MCP_RESOURCE_URL", "MCP_PROMPTS_DIR", "MCP_TEMPLATES", "MCP_HIDE_BANNER",
    "MCP_DISABLE_TELEMETRY", "MCP_ALLOW_ORIGIN", "MCP_ONLY_LOCAL", "MCP_SHOW_BANNER", "MCP_EXCLUDE_PATHS", "MCP_PING",
    "MCP_TLS", "MCP_INACTIVE", "MCP_MAX_TOKENS", "MCP_ACTIVATE", "MCP_RESEARCH_KEY",
]  # fmt: skip
FOREIGN_PARAMETERS = [
    "utm_source", "utm_medium", "gclid", "sessionId", "session", "state", "scope", "page", "limit", "offset", "skip",
    "config", "key", "resource", "prompt", "prompt_id", "resource_uri", "template", "skip_prompt", "no_cache", "remote",
    "reuse", "show", "select", "remote_tools", "resource_limit", "show_all", "include_ids", "blocking", "toll_free",
    "tool_id", "toolName", "tags_version", "lang", "topic", "tabs", "v", "x", "_", "read",
    "task", "tls", "hidden", "mode", "allowed_hosts", "redirect_uri", "access_token", "name", "filter",
    "ping", "pint", "spin", "activate", "inactive", "action", "search_key", "search_id", "max_tokens", "pin_code",
]  # fmt: skip
FOREIGN_HEADERS = [
    "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-tools", "mcp-param-disabled-tools",
    "x-mcp-session-id", "x-mcp-tool-name", "x-mcp-client", "x-mcp-header", "content-type", "host", "accept", "cookie",
    "authorization", "x-forwarded-for", "allow", "tags", "query", "x-tags", "x-request-id", "x-only", "te", "etag",
    "sec-fetch-mode", "access-control-allow-headers", "x-amzn-trace-id", "last-event-id", "if-none-match", "via",
    "x-include", "x-block", "include", "x-mcp-lockdown", "x-mcp-features", "x-mcp-resource-id", "x-mcp-prompt-id",
    "x-mcp-ping", "x-mcp-search-key", "x-mcp-inactive", "x-mcp-max-tokens",
]  # fmt: skip
EVERY = [(channel, key, field) for channel in WRITTEN for key, field in spellings(channel)]
TEXT = {
    "names": "git_log", "tags": "read", "flag": "true", "text": "some words", "count": "3", "number": "0",
    "threshold": "auto", "active": "git_log", "profile": "Review",
    "capabilities": "git, browser", "budget": "2000",
}  # fmt: skip
READ = {
    "tags": NameSet(frozenset({"read"})), "flag": True, "text": ("some words",), "count": 3, "number": 0,
    "threshold": AUTO, "active": Active(("git_log",), ("git_log",)), "profile": ("review",),
    "capabilities": ("git", "browser"), "budget": 2000,
}  # fmt: skip


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
        case "file" | "project":
            return read_fields({key: text}, "x.toml", channel, ()).selection


class TestSpellings:
    def test_each_is_read_into_its_field(self):
        wrong = []
        for channel, key, field in EVERY:
            setting = read(channel, key, TEXT[field.kind]).get(field.name, channel)
            names = (
                NameSet(toolsets=frozenset({"git_log"}))
                if "toolsets" in key.lower() or field.name in ("pins", "deny_tools")
                else NameSet(frozenset({"git_log"}))
            )
            if setting is None or setting.value != READ.get(field.kind, names):
                wrong.append((channel, key, setting))
        assert wrong == []

    def test_each_is_remembered_as_the_origin(self):
        origins = {
            (channel, key): read(channel, key, TEXT[field.kind]).get(field.name, channel).origins
            for channel, key, field in EVERY
        }
        assert [
            spelled for spelled, given in origins.items() if [o.split(" ")[-1] for o in given] != [spelled[1]]
        ] == []

    def test_no_spelling_means_two_fields(self):
        for channel in WRITTEN:
            keys = [key for key, _ in spellings(channel)]
            assert sorted(keys) == sorted(set(keys))

    def test_a_name_that_one_channel_knows_is_known_in_all(self):
        style = {**dict.fromkeys(WRITTEN, "{}"), "env": "MCP_{}", "cli": "--{}", "header": "x-mcp-{}"}
        stems = {channel: {normal(key, channel) for key, _ in spellings(channel)} for channel in WRITTEN}
        everywhere = {stem for field in FIELDS for stem in field.stems}
        assert {channel: everywhere - known for channel, known in stems.items()} == {
            "env": {"active", "capabilities"},
            "cli": {"active", "capabilities"},
            "file": {"active", "capabilities"},
            "project": {"active", "capabilities"},
            "query": set(),
            "header": set(),
            "meta": set(),
        }
        assert all(style[channel].partition("{")[0] == key[: style[channel].index("{")] for channel, key, _ in EVERY)

    def test_every_field_has_every_channel_but_what_only_a_request_can_know(self):
        lacking = {(field.name, channel) for field in FIELDS for channel in WRITTEN if not field.spellings(channel)}
        only_callers = ("active", "capabilities")
        assert lacking == {(name, channel) for name in only_callers for channel in ("file", "project", "env", "cli")}


def normal(key: str, channel: Channel) -> str:
    """Return a spelling without its channel's style."""
    prefixes = {"env": "MCP_", "cli": "--", "header": "x-mcp-"}
    return key.removeprefix(prefixes.get(channel, "")).lower().replace("-", "_")


STYLES = ["{}", "MCP_{}", "x-mcp-{}", "--{}", "mcp-{}", "X_MCP_{}"]
CASES = [str.lower, str.upper, str.title, str.swapcase]
JOINS = ["_", "-", ""]
DENY_WORDS = """
    deny denied disable disabled exclude excluded block blocked hide hidden no not without forbid forbidden skip omit
    blacklist disallow not-allowed
""".split()
ALLOW_WORDS = """
    allow allowed enable enabled include included permit permitted only expose whitelist select not-disabled
""".split()
OBJECTS = ["tool", "tools", "toolset", "toolsets", "component", "components", "tag", "tags", "prompts", "resources"]
SAID_ALONE = {
    "deny": "deny block disable exclude hide forbid ban omit except without blacklist denylist black-list disable-all",
    "allow": "allow enable include only permit expose whitelist allowlist white-list allow-list",
}
FIELD_OF = {("deny", False): "deny_tools", ("deny", True): "deny_tags", ("allow", False): "allow_tools",
            ("allow", True): "allow_tags"}  # fmt: skip


def is_read(channel: Channel, key: str) -> bool:
    """Whether a channel looks at a key at all: another program's environment, or a plain `tags` header, is not ours."""
    if channel == "env":
        return key.lower().startswith(("mcp_", "mcp-", "x-mcp-", "x_mcp_"))
    return channel != "header" or is_selection_header(key)


def known_as(channel: Channel, key: str) -> set[str]:
    """Return the fields that a key is read as, or that its refusal names."""
    if (field := field_of(key, channel)) is not None:
        return {field.name}
    meant = near_miss(key, channel)
    fields = [field_of(spelling, channel) for spelling in meant.split(" or ")] if meant else []
    return {field.name for field in fields if field}


class TestWhatSoundsLikeABound:
    """It is read as what it says, or refused with the name of what it says: never passed over, never turned round."""

    def test_every_name_in_every_style_and_case(self):
        wrong = []
        for field, channel, style, case, join in product(FIELDS, WRITTEN, STYLES, CASES, JOINS):
            for stem in field.stems:
                key = case(style.format(stem.replace("_", join)))
                # A preference by itself is a common word; written as another channel's it is somebody else's.
                is_bound = field.name in get_args(BoundName) and field.name != "capabilities"
                if is_bound and (channel != "header" or "mcp" in key.lower()) and is_read(channel, key):
                    if known_as(channel, key) != {field.name}:
                        wrong.append((channel, key, known_as(channel, key)))
        assert wrong == []

    def test_every_other_word_for_it(self):
        for side, words in [("deny", DENY_WORDS), ("allow", ALLOW_WORDS)]:
            wrong = []
            for word, of, channel, style, join in product(words, OBJECTS, WRITTEN, STYLES, JOINS):
                for parts in ([*word.split("-"), of], [of, *word.split("-")]):
                    key = style.format(join.join(parts))
                    if channel == "env" and not is_read(channel, key):
                        continue
                    if known_as(channel, key) != {FIELD_OF[side, of.startswith("tag")]}:
                        wrong.append((channel, key, known_as(channel, key)))
            assert wrong == []

    def test_every_word_that_says_one_by_itself(self):
        for side, words in SAID_ALONE.items():
            wrong = []
            for word, channel, join, ending in product(words.split(), WRITTEN, JOINS, ["", "s"]):
                if word.endswith("all") and not join:
                    continue
                own = {"env": "MCP_{}", "cli": "--{}", "header": "x-mcp-{}"}.get(channel, "{}")
                key = own.format(word.replace("-", join) + ending)
                told = known_as(channel, key.upper() if channel == "env" else key)
                if told != {f"{side}_tools"} and not (ending and word in ("only", "without", "except", "disable-all")):
                    wrong.append((channel, key, told))
            assert wrong == []

    def test_a_single_prompt_or_resource_with_a_word_that_says_nothing_else(self):
        for word, of in product(("deny", "disable", "exclude", "hide", "block"), ("prompt", "resource", "template")):
            for join in JOINS:
                assert known_as("query", f"{word}{join}{of}") == {"deny_tools"}

    def test_short_ones_with_one_letter_wrong(self):
        for key, field in [("toolz", "allow_tools"), ("tols", "allow_tools"), ("toosl", "allow_tools")]:
            assert known_as("query", key) == known_as("header", f"x-mcp-{key}") == {field}
        for key in ["tagz", "taks", "tgas", "tagss", "atgs"]:
            assert known_as("query", key) == known_as("env", f"MCP_{key.upper()}") == {"allow_tags"}

    def test_what_is_said_of_destructive_tools(self):
        for key in ["destructive", "non_destructive", "hide_destructive", "block_destructive_tools", "no_destructiv"]:
            for channel, style in [("query", "{}"), ("env", "MCP_{}"), ("header", "x-mcp-{}"), ("cli", "--{}")]:
                assert known_as(channel, style.format(key.replace("_", "-"))) == {"no_destructive"}

    @settings(max_examples=300)
    @given(st.sampled_from(EVERY), st.data())
    def test_a_slip_of_the_pen_is_never_told_for_its_opposite(self, spelled, data):
        channel, key, field = spelled
        start = len(key) - len(normal(key, channel))
        at = data.draw(st.integers(start, len(key) - 1))
        slip = data.draw(
            st.sampled_from([key[:at] + key[at + 1 :], key[:at] + "x" + key[at:], key[:at] + "x" + key[at + 1 :]])
        )
        told = known_as(channel, slip)
        opposite = {"allow_tools": "deny_tools", "deny_tools": "allow_tools", "allow_tags": "deny_tags",
                    "deny_tags": "allow_tags"}.get(field.name)  # fmt: skip
        assert opposite not in told or field.name in told


class TestKeys:
    def test_query_keys_ignore_case_and_dashes(self):
        for key in ["DISABLED_TAGS", "disabled-tags", "Disabled-Tags"]:
            assert read("query", key, "write").get("deny_tags", "query") is not None

    def test_a_misspelling_has_a_nearest_spelling(self):
        for channel, key, meant in [
            ("query", "tool", "tools"),
            ("query", "disabled_tool", "disabled_tools"),
            ("query", "readonly", "read_only"),
            ("header", "x-mcp-enabled-tool", "x-mcp-enabled-tools"),
            ("header", "x-mcp-disable-tags", "x-mcp-disabled-tags"),
            ("env", "MCP_READONLY", "MCP_READ_ONLY"),
            ("env", "MCP_ENABLED_TOOL", "MCP_ENABLED_TOOLS"),
        ]:
            assert near_miss(key, channel) == meant

    def test_other_keys_are_not_taken_for_misspellings(self):
        for channel, key in [
            ("query", "session_id"),
            ("query", "token"),
            ("query", "api_key"),
            ("query", "profile_id"),
            ("query", "code"),
            ("header", "x-mcp-session"),
            ("header", "x-mcp-proxy-auth"),
            ("env", "MCP_SERVER_URL"),
            ("env", "MCP_TIMEOUT"),
            *(("env", name) for name in FOREIGN_VARIABLES),
            *(("query", name) for name in FOREIGN_PARAMETERS),
            *(("header", name) for name in FOREIGN_HEADERS),
        ]:
            assert near_miss(key, channel) is None
