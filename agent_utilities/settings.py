"""The operator's settings that are not selection fields, parsed from files and `MCP_*` environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr, ValidationError, model_validator

from agent_utilities.errors import SettingsError, said_of
from agent_utilities.selection.model import Policy
from agent_utilities.selection.parse import unquoted
from agent_utilities.selection.profiles import FileSetting

_M = TypeVar("_M", bound=BaseModel)


class Quota(BaseModel):
    """The most that one person, tool or upstream may have; no bound where None."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    calls_per_minute: int | None = Field(default=None, ge=1)
    """Calls of tools that may begin in a minute."""
    bytes_per_minute: int | None = Field(default=None, ge=1)
    """Bytes of results in a minute, as JSON; the result that goes beyond them is still given."""
    calls_at_once: int | None = Field(default=None, ge=1)
    """Calls that may be under way at one time."""


class ResultRule(BaseModel):
    """How the results of one tool are shortened."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    select: str = ""
    """A JMESPath expression: what is given of a result in its place; the rest can be read."""
    tokens: int | None = Field(default=None, ge=200)
    """The most tokens, in place of those of `result_tokens`."""
    compact: bool = False
    """Whether white space between the parts of JSON goes."""


class ApproveRule(BaseModel):
    """Which calls are made after a person's yes alone, and whose; a text or a list of it is its `tools`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tools: tuple[str, ...] = ()
    """Names or globs, or `destructive`, `writes`, `all`."""
    tags: tuple[str, ...] = ()
    """Tags or globs of them."""
    how: Literal["auto", "page"] = "auto"
    """`page`: it is asked on the page alone, and never by the caller's own client."""
    by: Literal["any", "other"] = "any"
    """`other`: somebody else than the caller is to answer."""

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        value = {"tools": value} if isinstance(value, str | list) else value
        if not isinstance(value, Mapping):
            return value
        texts = {key: value[key] for key in ("tools", "tags", "programs") if isinstance(value.get(key), str)}
        return {**value, **{key: text.replace(",", " ").split() for key, text in texts.items()}}


class Settings(BaseModel):
    """Settings of one server; every field's variable is `MCP_` and its name in capitals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    selection_policy: Policy = "narrow"
    """`narrow`: a caller's allow-lists only narrow the operator's. `override`: for trusted networks, header > query
    > CLI > env; denies still add up.
    """
    strict: bool = False
    """Whether a deny in the environment that fits nothing, or a toolset among allowed tools, ends the launch, as on
    the command line, rather than to warn.
    """
    list_ttl_ms: int = Field(default=60_000, ge=0, le=86_400_000)
    """Milliseconds that a client of the 2026-07-28 protocol may keep a list."""
    queried_list_ttl_ms: int = Field(default=5_000, ge=0, le=86_400_000)
    """The same for a list that a query has cut."""
    first_list_s: float = Field(default=8, ge=0, le=600)
    """Until so many seconds after a gateway's start lists, and calls of names that they may have, wait for servers
    that were never seen. Some hosts give up at 10. `0`: they never wait.
    """
    groups: bool = True
    """Whether each listed tool's `_meta` names its toolsets, under `io.modelcontextprotocol/groups`."""
    allowed_hosts: str = ""
    """Over HTTP: hosts that requests may be for, such as `agent.example,*.lan:8001`. A loopback address takes
    loopback names besides; on any other nothing else gets in.
    """
    allowed_origins: str = ""
    """Over HTTP: origins of web pages that may send requests, such as `https://app.example`, beside the server's
    own, and loopback ones on a loopback address.
    """
    cache_mb: int = Field(default=64, ge=0, le=65_536)
    """MiB that what is remembered of requests may take: `0` for nothing. A long selection never is."""
    graph: Literal["auto", "off", "embedded", "neo4j"] = "auto"
    """Where queries are resolved. `auto`: Neo4j where `NEO4J_URI` is set, else embedded."""
    graph_deadline_ms: int = Field(default=250, ge=1, le=60_000)
    """The most milliseconds that a list waits for the graph."""
    graph_ttl_hours: float = Field(default=24, gt=0, le=8784)
    """The age from which the graph's tools are refreshed in the background."""
    graph_folder: str = ""
    """Where embedded graphs and vectors are kept; the user's cache folder where blank."""
    gateway_folder: str = ""
    """Where gateways keep snapshots, logs, logins and what was agreed to; the user's cache and state folders where
    blank.
    """
    ranker: Literal["auto", "off", "lexical", "embedding", "hybrid"] = "auto"
    """What ranks tools for a query. `auto`: by words, and by vectors too where `MCP_EMBEDDINGS` is set or the
    offline model is installed. `off`: only what bears the query's words.
    """
    embeddings: str = ""
    """What makes vectors: `minilm`, `fastembed`, `fastembed:MODEL`, or an OpenAI-compatible endpoint as
    `URL#MODEL`, its key in `MCP_EMBEDDINGS_API_KEY`.
    """
    usage: Literal["auto", "off", "counts", "words"] = "auto"
    """What is logged of calls: `counts`, or `words` that led to them besides. `auto`: `counts` on a gateway, `off`
    on a server. Never arguments or results.
    """
    usage_file: str = ""
    """The log, an SQLite file; one a server in the user's state folder where blank."""
    usage_scope: Literal["server", "subject"] = "server"
    """Whose calls teach what a caller is shown: everybody's of the server, or, where callers authenticate, their
    own alone.
    """
    usage_days: int = Field(default=30, ge=1, le=3650)
    """The age in days at which what was logged goes."""
    usage_rows: int = Field(default=200_000, ge=100, le=100_000_000)
    """The most calls that the log keeps; the oldest go first."""
    capability_folders: str = ""
    """On a gateway: folders of capabilities, later over earlier, and yours over all of them; `starter` for those
    that come with the package. With several, `:` stands between them (`;` on Windows).
    """
    capabilities: dict[str, str] = Field(default_factory=dict)
    """Which provider of a capability holds, such as `websearch=brave,browser=playwright`; in a file a table."""
    boot_capabilities: str = ""
    """On a gateway: capabilities that are on for everybody from the start, and stay on."""
    max_capabilities: int = Field(default=4, ge=0, le=64)
    """The most other capabilities that one caller may have on at once."""
    capability_routing: bool = True
    """Whether a caller's words switch on the capability that they call for."""
    allow_install: bool = False
    """Whether what a capability requires and is missing is installed when it is switched on."""
    curation: Literal["recency", "words", "off"] = "recency"
    """What a query shows: what its words claim and what usage teaches, what its words claim alone, or everything
    permitted.
    """
    no_match: Literal["all", "search"] = "all"
    """What a query shows that can't be answered: `all` that is permitted, or `search`: over 50 tools, `tool_search`
    and `call_tool` in place of those that are not pinned. Tool search that is off stays off.
    """
    state_url: SecretStr = SecretStr("")
    """A Redis that replicas of this server share, such as `rediss://user:password@redis.example:6379/0`: then sessions,
    quotas and what is revoked are everybody's. It takes `secret_key` besides.
    """
    state: Literal["best effort", "required"] = "best effort"
    """Whether requests go on with this process's state while that Redis does not answer, or not (`required`)."""
    state_prefix: str = "agent-utilities"
    """What every key in it begins with."""
    page: bool = True
    """Over HTTP: whether the page is there, at `/`, for who may read it."""
    page_app: bool = False
    """Whether clients that show MCP apps are listed `show_context`, a tool that draws what is in their prompt."""
    auth_tokens: str = ""
    """Over HTTP: the file of tokens that `agent-utilities token new` keeps; who has one of them gets in."""
    auth_issuer: str = ""
    """Over HTTP: the OpenID Connect issuer at which callers log in, such as `https://login.example/realms/team`."""
    auth_audience: str = ""
    """Whom the issuer's tokens must be for; this server's own URL where blank."""
    auth_base_url: str = ""
    """The server's URL without `/mcp`, as callers reach it; it is never read from a request."""
    auth_client_id: str = ""
    """The server's own client at the issuer, where that has no dynamic registration, or tokens are opaque."""
    auth_client_secret: SecretStr = SecretStr("")
    """The secret of that client."""
    auth_scopes: str = ""
    """Scopes that every token of the issuer must have."""
    auth_groups: str = "groups"
    """The claim that holds a caller's groups."""
    auth_absent: str = ""
    """Claims that the issuer leaves out of a token where they are empty. Of any other that a rule of access asks for
    and a token lacks it is not known whether the rule fits, and then no later rule holds.
    """
    access: list[dict[str, Any]] = Field(default_factory=list)
    """In a file, as `[[access]]`: rules that say who may what; the first that fits holds."""
    secret_key: SecretStr = SecretStr("")
    """What seals callers' logins at servers, ids of tasks, and what replicas share, of `agent-utilities key new`."""
    secret_key_file: str = ""
    """The file that holds that key, where `secret_key` does not."""
    audit_file: str = ""
    """The record of who called what, in JSON lines; `otel` for OpenTelemetry's logs in its place; none where blank."""
    audit_mode: Literal["best effort", "required"] = "best effort"
    """Whether a call whose line can't be written is refused (`required`), or the line is counted as lost."""
    audit_arguments: str = ""
    """Tools whose arguments are recorded, such as `git_*`."""
    audit_max_mb: int = Field(default=64, ge=1, le=65_536)
    """MiB after which the record goes on in a new file."""
    audit_days: int = Field(default=90, ge=1, le=3650)
    """The age in days after which it does so too. None of its files is ever deleted."""
    quota: dict[str, Any] = Field(default_factory=dict)
    """In a file, as `[quota]`: how much each person, tool and upstream may be called."""
    approve: dict[str, Any] = Field(default_factory=dict)
    """Tools that are called after a person's yes alone: names, globs, `destructive`, `writes`, `all`; in a file
    `[approve]`, with `tools`, `tags`, `how` and `by`.
    """
    results: dict[str, Any] = Field(default_factory=dict)
    """In a file, as `[results.NAME]`: how the results of a tool are shortened: `select`, `tokens`, `compact`."""
    invisible: Literal["auto", "show", "drop", "keep"] = "auto"
    """On a gateway: whether invisible text of servers, such as tag characters and bidirectional overrides, is made
    visible (`show`), left out (`drop`) or sent as it is (`keep`). `auto`: `show` on a gateway, `keep` on a server.
    """
    programs: Literal["off", "read", "all"] = "off"
    """Whether models may run programs over the tools that they may use: over those that only read, or over all; needs
    `pydantic-monty`."""
    features: str = ""
    """Features of other packages that are put in, by their names, such as `office-hours`; in a file a list."""


_LISTS = ("allowed_hosts", "allowed_origins")
_NAMES = ("auth_scopes", "auth_absent", "audit_arguments", "features")
"""Settings that are lists in a file, and comma-separated in the environment."""
TABLES = ("auth", "audit")
"""Tables of a file whose keys are settings: `[auth] issuer` is `auth_issuer`."""
OPTIONS = frozenset(
    "transport host port drain list_tools list as_json json log_level version help_all help install_completion "
    "show_completion config_file profiles files yes name capability skills".split()
)
"""Names of what the command line, the environment and files have beside settings and selections."""


def variable(field: str) -> str:
    """Return the environment variable of a settings field."""
    return f"MCP_{field.upper()}"


def option(field: str) -> str:
    """Return the command line's option for a settings field."""
    return f"--{field.replace('_', '-')}"


VARIABLES: tuple[str, ...] = tuple(variable(field) for field in Settings.model_fields)


def read_settings(
    environ: Mapping[str, str],
    files: Sequence[Mapping[str, FileSetting]] = (),
    kind: type[_M] = Settings,  # type: ignore[assignment]
    options: Mapping[str, FileSetting] | None = None,
) -> _M:
    """Parse the settings of files, the lowest first, of environment variables over them, and of options over all.

    Blank means not set; an invalid value raises `SettingsError`.

    Args:
        kind: the model of the settings; what is not in it is passed over.
    """
    texts = {field: unquoted(environ.get(variable(field), "")).strip() for field in kind.model_fields}
    in_environ = {field: FileSetting(text, f"env {variable(field)}") for field, text in texts.items() if text}
    layers = (*files, in_environ, options or {})
    every = {field: setting for layer in layers for field, setting in layer.items() if field in kind.model_fields}
    return checked(every, kind)


def checked(by_field: Mapping[str, FileSetting], kind: type[_M] = Settings) -> _M:  # type: ignore[assignment]
    """Validate the values of some fields, and return the settings; raises `SettingsError`."""
    values = {field: _plain(field, setting, kind) for field, setting in by_field.items()}
    try:
        settings = kind.model_validate({field: value for field, value in values.items() if value != ""})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        wrong = [field for field in values if field in first["loc"][:1]] or list(values)  # of one, or of all together
        given = ", ".join("…" if _is_secret(kind, field) else str(values[field]) for field in wrong)
        source = ", ".join(by_field[field].source for field in wrong) or kind.__name__
        raise SettingsError(f"{', '.join(wrong)} can't be read", given, source, said_of(first["msg"])) from None
    if isinstance(settings, Settings):
        sources = [by_field[field].source if field in by_field else "" for field in _LISTS]
        check_hosts(settings.allowed_hosts, settings.allowed_origins, *sources)
    return settings


def _is_secret(kind: type[BaseModel], field: str) -> bool:
    annotation = kind.model_fields[field].annotation
    return not {SecretStr, SecretBytes}.isdisjoint((annotation, *get_args(annotation)))


def of_fastmcp(error: ValueError) -> SettingsError | None:
    """Return our error for a variable that FastMCP can't parse when it is imported; None for any other error."""
    if not isinstance(error, ValidationError) or error.title != "Settings":
        return None
    first = error.errors(include_url=False)[0]
    name = f"FASTMCP_{'__'.join(map(str, first['loc']))}".upper()
    source = f"env {name}" if name in os.environ else f"{name} in the file .env"
    return SettingsError("not as FastMCP reads it", os.environ.get(name, first["input"]), source, said_of(first["msg"]))


def _plain(field: str, setting: FileSetting, model: type[BaseModel]) -> object:
    """Convert a value for the model: text keeps its case where the field is text, a list becomes one text."""
    value, kind = setting.value, model.model_fields[field].annotation
    if field == "capabilities" and isinstance(value, str):
        return _pairs(value, setting.source)
    if field == "approve" and isinstance(value, str | list) and value:
        return {"tools": value}
    if isinstance(value, bool) and kind is not bool:
        raise SettingsError(f"{field} can't be read", value, setting.source, "it is neither true nor false")
    if isinstance(value, list) and field in (*_LISTS, *_NAMES) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str):
        return value.strip().lower() if get_origin(kind) is Literal or kind in (bool, int, float) else value.strip()
    return value


def _pairs(text: str, source: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not equals or not name or not value:
            raise SettingsError("capabilities can't be read", part, source, "write it as websearch=brave")
        pairs[name] = value
    return pairs


def check_hosts(hosts: str, origins: str, hosts_source: str, origins_source: str) -> None:
    """Raise `SettingsError` where a host or an origin is invalid."""
    if hosts or origins:
        from agent_utilities.runtime.hosts import read_patterns

        read_patterns("host", [hosts], hosts_source)
        read_patterns("origin", [origins], origins_source)
