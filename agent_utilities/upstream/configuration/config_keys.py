"""Every key of a server's entry that the gateway knows: one table, which the reader and the docs are made from."""

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
        meaning: what it says, for the docs.
        hosts: whose files have it; empty for a key of the gateway's own.
        read: turns its value into what the field takes.
        is_secret: whether people put keys and passwords there, so that no message shows its value.
    """

    field: str
    spellings: tuple[str, ...]
    meaning: str
    hosts: tuple[str, ...] = ()
    read: Read = values.as_written
    is_secret: bool = False


_EVERY = ("every host",)

KEYS: tuple[Key, ...] = (
    Key("transport", ("type", "transport", "transportType"), "`stdio` (`local`), `http` (`streamable-http`,"
        " `streamableHttp`, `remote`) or `sse`. Without it a command means `stdio`, a URL that ends in `/sse` means"
        " `sse`, any other `http`.", ("Claude Code", "VS Code", "Cursor", "Cline", "Roo", "FastMCP", "Copilot"),
        read=values.transport),
    Key("command", ("command", "cmd"), "stdio: the program, looked up in PATH; or a list of it and its arguments.",
        _EVERY, read=values.command, is_secret=True),
    Key("args", ("args", "arguments"), "stdio: its arguments.", _EVERY, read=values.words, is_secret=True),
    Key("env", ("env", "environment"), "stdio: its variables: texts, numbers or switches; null for none.", _EVERY,
        read=values.variables, is_secret=True),
    Key("env_file", ("envFile",), "stdio: a file of `NAME=value` lines; `env` goes over it.", ("VS Code", "Cursor"),
        read=values.path),
    Key("env_names", ("env_vars",), "stdio: names of your own variables that it gets.", ("Codex",),
        read=values.own_variables),
    Key("cwd", ("cwd", "workingDirectory", "workingDir"), "stdio: the folder it runs in; relative to the project's.",
        ("VS Code", "Gemini", "Claude Code", "Codex", "FastMCP"), read=values.path),
    Key("url", ("url", "serverUrl", "httpUrl", "baseUrl"), "http, sse: its address; `httpUrl` means `http`.",
        (*_EVERY, "Windsurf: serverUrl", "Gemini: httpUrl"), read=values.url, is_secret=True),
    Key("headers", ("headers", "http_headers"), "http, sse: headers of every request.",
        (*_EVERY, "Codex: http_headers"), read=values.headers, is_secret=True),
    Key("env_headers", ("env_http_headers",), "http: headers whose values are those of your variables of these"
        " names.", ("Codex",), read=values.env_headers, is_secret=True),
    Key("auth", ("auth",), "http, sse: `oauth`, or a bearer token; or an object as for `oauth`.",
        ("FastMCP", "Cursor"), read=values.auth, is_secret=True),
    Key("auth", ("oauth",), "http, sse: true, or an object with `clientId`, `clientSecret`, `scopes` and"
        " `callbackPort`.", ("Gemini", "Claude Code", "Cursor: auth"), read=values.oauth, is_secret=True),
    Key("auth", ("bearer_token_env_var",), "http: the name of your variable that has the bearer token.", ("Codex",),
        read=values.bearer_variable),
    Key("forward_headers", ("forwardHeaders",), "http, sse: names of the caller's headers that it is given."),
    Key("forward_meta", ("forwardMeta",), "Keys of `_meta` in the caller's requests that it is given."
        " `traceparent`, `tracestate` and `io.modelcontextprotocol/logLevel` always cross. Nothing else of the"
        " caller's does."),
    Key("enabled", ("enabled", "isActive"), "False: neither started nor listed.",
        ("Codex", "Cherry Studio: isActive")),
    Key("enabled", ("disabled",), "True: neither started nor listed.", ("Claude Desktop", "Windsurf", "Cline", "Roo"),
        read=values.opposite),
    Key("allow", ("onlyAllow", "includeTools", "enabledTools", "allowedTools"), "Names or globs of its tools, as it"
        " calls them, that are permitted; no others are.", ("Gemini", "Codex: enabled_tools")),
    Key("deny", ("disabledTools", "excludeTools"), "Names or globs of its tools that are denied, whatever else"
        " allows them.", ("Windsurf", "Roo", "Gemini: excludeTools", "Codex: disabled_tools")),
    Key("overrides", ("tools",), "By a tool's name, what you say of it: `{\"description\", \"title\", \"tags\","
        " \"enabled\"}`. A list is the same as `onlyAllow`.", ("FastMCP", "Copilot: a list")),
    Key("lazy", ("lazy",), "False: its tools are in every list where they are permitted."),
    Key("lazy", ("alwaysLoad",), "True: the same as `lazy: false`.", ("Claude Code",), read=values.opposite),
    Key("tags", ("tags",), "Tags that its tools bear beside their own.", ("FastMCP",)),
    Key("description", ("description",), "What it is for, which ranking reads.", ("Gemini", "FastMCP")),
    Key("isolate", ("isolate",), "True: every session gets a connection, and a process, of its own."),
    Key("timeout_s", ("timeout",), "The time a call may take without a sign of progress. From 1000 on it is"
        " milliseconds, as in Claude Code, Gemini, Copilot and FastMCP, below that seconds. In the files of Cline,"
        " Roo and Codex it is always seconds.", ("Claude Code", "Gemini", "Copilot", "FastMCP", "Cline", "Roo"),
        read=values.time),
    Key("timeout_s", ("timeoutSeconds", "timeout_s", "tool_timeout_sec"), "The same, in seconds.",
        ("Codex: tool_timeout_sec",)),
    Key("timeout_s", ("timeout_ms", "request_timeout_ms"), "The same, in milliseconds.",
        ("Claude Code: request_timeout_ms",), read=values.milliseconds),
    Key("start_timeout_s", ("startTimeoutSeconds", "start_timeout_s", "startup_timeout_sec"), "Seconds until it has"
        " answered its first request.", ("Codex: startup_timeout_sec",)),
    Key("start_timeout_s", ("startup_timeout_ms",), "The same, in milliseconds.", ("Codex",),
        read=values.milliseconds),
    Key("list_timeout_s", ("listTimeoutSeconds", "list_timeout_s"), "Seconds that each of its lists may take."),
    Key("max_call_s", ("maxCallSeconds", "max_call_s"), "Seconds that a call may take in all, whatever progress it"
        " shows: 3600, or `timeout` where that is longer. The time in which its caller is asked something counts."),
    Key("max_message_bytes", ("maxMessageBytes", "max_message_bytes"), "Bytes of the longest message that is taken"
        " of it, after decompression: 16777216."),
    Key("idle_s", ("idleSeconds", "idle_s"), "Seconds without a call after which it is stopped."),
)  # fmt: skip
"""In the order of the docs' table."""

OF_HOSTS_ONLY: tuple[str, ...] = (
    "$schema", "alwaysAllow", "authentication", "autoApprove", "author", "default_tools_approval_mode",
    "dev", "displayName", "gallery", "homepage", "icon", "iconPath", "icons", "id", "instructions", "keep_alive",
    "license", "metadata", "name", "note", "notes", "required", "scope", "source", "title", "trust", "version",
    "watchPaths",
)  # fmt: skip
"""Keys that say something to a host's own windows and questions, and nothing that a gateway does."""

NOT_DONE: Mapping[str, str] = {
    "headersHelper": "its program is not run; give the headers under `headers`",
    "authProviderType": "only OAuth as the server tells of it, and bearer tokens, are known; give one under `auth`",
    "sandbox": "it is started without a sandbox",
    "sandboxEnabled": "it is started without a sandbox",
    "include_tags": "tags bound nothing here; name tools under `onlyAllow`",
    "exclude_tags": "tags bound nothing here; name tools under `disabledTools`",
    "sse_read_timeout": "give `timeout`",
    "targetAudience": "no access token is made for it; give one under `auth`",
    "targetServiceAccount": "no account is taken on; give a token under `auth`",
}
"""Keys of a host that change what its server is or may do, and that the gateway can't follow: told, with what to do."""


BY_SPELLING: Mapping[str, Key] = {fold(spelling): key for key in KEYS for spelling in key.spellings}
"""Each key of the table by each of its spellings, folded."""

_TEXTS = "an object of texts, such as"
_NAMES = "a list of names, such as"
EXPECTED: Mapping[str, str] = {
    **dict.fromkeys(("enabled", "lazy", "isolate"), "true or false"),
    **dict.fromkeys(("allow", "deny", "tags"), f'{_NAMES} ["read_file", "list_*"]'),
    **dict.fromkeys(("headers", "env_headers"), f'{_TEXTS} {{"Authorization": "Bearer ${{TOKEN}}"}}'),
    **dict.fromkeys(("env_file", "cwd"), "a path"),
    "transport": '"stdio", "http" or "sse"',
    "command": 'a program, such as "npx", with its arguments under `args`',
    "args": 'a list of texts, such as ["-y", "NAME"]',
    "env": f'{_TEXTS} {{"NAME": "value"}}',
    "env_names": f'{_NAMES} ["NAME"]',
    "url": "an address, such as https://example.com/mcp",
    "auth": '"oauth", a bearer token such as "${TOKEN}", or an object such as {"clientId": "…", "scopes": ["read"]}',
    "forward_headers": f'{_NAMES} ["x-tenant"], each in full',
    "forward_meta": f'{_NAMES} ["example.com/user"], each your own and in full',
    "overrides": 'an object by tool, such as {"read": {"description": "…", "enabled": true}}',
    "description": "a text",
    "max_message_bytes": "a whole number from 65536 to 1073741824, such as 16777216",
}
"""What would do for a field, where something else was written; a time for all others."""
