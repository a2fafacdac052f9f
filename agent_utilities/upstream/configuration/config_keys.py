"""Every key of a server's entry that the gateway knows: one table, which the reader goes by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agent_utilities.upstream.configuration import entry_values as values
from agent_utilities.upstream.configuration.entry_values import Read, fold


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a server's entry.

    Args:
        field: what it sets: a field of `UpstreamConfig`, or of what the reader makes one from.
        spellings: how it may be written; case, `_` and `-` make no difference.
        read: turns its value into what the field takes.
        is_secret: whether people put keys and passwords there, so that no message shows its value.
    """

    field: str
    spellings: tuple[str, ...]
    read: Read = values.as_written
    is_secret: bool = False


KEYS: tuple[Key, ...] = (
    Key("transport", ("type", "transport", "transportType"), values.transport),
    Key("command", ("command", "cmd"), values.command, is_secret=True),
    Key("args", ("args", "arguments"), values.words, is_secret=True),
    Key("env", ("env", "environment"), values.variables, is_secret=True),
    Key("env_file", ("envFile",), values.path),
    Key("env_names", ("env_vars",), values.own_variables),
    Key("cwd", ("cwd", "workingDirectory", "workingDir"), values.path),
    Key("url", ("url", "serverUrl", "httpUrl", "baseUrl"), values.url, is_secret=True),
    Key("headers", ("headers", "http_headers"), values.headers, is_secret=True),
    Key("env_headers", ("env_http_headers",), values.env_headers, is_secret=True),
    Key("auth", ("auth",), values.auth, is_secret=True),
    Key("auth", ("oauth",), values.oauth, is_secret=True),
    Key("auth", ("bearer_token_env_var",), values.bearer_variable),
    Key("credentials", ("credentials",)),
    Key("forward_headers", ("forwardHeaders",)),
    Key("forward_meta", ("forwardMeta",)),
    Key("enabled", ("enabled", "isActive")),
    Key("enabled", ("disabled",), values.opposite),
    Key("allow", ("onlyAllow", "includeTools", "enabledTools", "allowedTools")),
    Key("deny", ("disabledTools", "excludeTools")),
    Key("overrides", ("tools",)),
    Key("lazy", ("lazy",)),
    Key("lazy", ("alwaysLoad",), values.opposite),
    Key("tags", ("tags",)),
    Key("description", ("description",)),
    Key("isolate", ("isolate",)),
    Key("timeout_s", ("timeout",), values.time),
    Key("timeout_s", ("timeoutSeconds", "timeout_s", "tool_timeout_sec")),
    Key("timeout_s", ("timeout_ms", "request_timeout_ms"), values.milliseconds),
    Key("start_timeout_s", ("startTimeoutSeconds", "start_timeout_s", "startup_timeout_sec")),
    Key("start_timeout_s", ("startup_timeout_ms",), values.milliseconds),
    Key("list_timeout_s", ("listTimeoutSeconds", "list_timeout_s")),
    Key("max_call_s", ("maxCallSeconds", "max_call_s")),
    Key("max_message_bytes", ("maxMessageBytes", "max_message_bytes")),
    Key("idle_s", ("idleSeconds", "idle_s")),
    Key("quota", ("quota",), values.quota),
)
"""In the order of the table in `docs/gateway.md`, which says what each is for."""

OF_HOSTS_ONLY = frozenset(map(fold, (
    "$schema", "alwaysAllow", "authentication", "autoApprove", "author", "default_tools_approval_mode",
    "dev", "displayName", "gallery", "homepage", "icon", "iconPath", "icons", "id", "instructions", "keep_alive",
    "license", "metadata", "name", "note", "notes", "required", "scope", "source", "title", "trust", "version",
    "watchPaths",
)))  # fmt: skip
"""Keys, folded, that say something to a host's own windows and questions, and nothing that a gateway does."""

BY_SPELLING: Mapping[str, Key] = {fold(spelling): key for key in KEYS for spelling in key.spellings}
"""Each key of the table by each of its spellings, folded."""

_NAMES = "a list of names, such as"
EXPECTED: Mapping[str, str] = {
    **dict.fromkeys(("enabled", "lazy", "isolate"), "true or false"),
    **dict.fromkeys(("allow", "deny", "tags"), f'{_NAMES} ["read_file", "list_*"]'),
    **dict.fromkeys(("env", "headers", "env_headers"), 'an object of texts, such as {"NAME": "${VARIABLE}"}'),
    **dict.fromkeys(("env_file", "cwd"), "a path"),
    "transport": '"stdio", "http" or "sse"',
    "command": 'a program, such as "npx", with its arguments under `args`',
    "args": 'a list of texts, such as ["-y", "NAME"]',
    "env_names": f'{_NAMES} ["NAME"]',
    "url": "an address, such as https://example.com/mcp",
    "auth": '"oauth", a bearer token such as "${TOKEN}", or an object such as {"clientId": "…", "scopes": ["read"]}',
    "credentials": '"caller", for each caller\'s own login, or "gateway"',
    "forward_headers": f'{_NAMES} ["x-tenant"], each in full',
    "forward_meta": f'{_NAMES} ["example.com/user"], each your own and in full',
    "overrides": 'an object by tool, such as {"read": {"description": "…", "enabled": true}}',
    "description": "a text",
    "quota": 'an object with any of "calls_per_minute", "bytes_per_minute" and "calls_at_once", each a whole number '
    "above 0",
    "max_message_bytes": "a whole number from 65536 to 1073741824, such as 16777216",
}
"""What would do for a field, where something else was written; a time for all others."""
