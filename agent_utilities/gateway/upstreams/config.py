"""The configuration of upstreams, with every variable filled in, whatever file and host it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StrictBool, StringConstraints

from agent_utilities.gateway.upstreams.limits import Limits
from agent_utilities.settings import ApproveRule, Quota, ResultRule

Transport = Literal["stdio", "http", "sse"]

_Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Variable = Annotated[str, StringConstraints(pattern=r"\A[^=\x00]+\Z")]
_Header = Annotated[_Name, StringConstraints(pattern=r"\A[!#$%&'+.^_`|~0-9A-Za-z-]+\Z")]
_FoldedHeader = Annotated[_Header, StringConstraints(to_lower=True)]
_MetaKey = Annotated[
    _Name, StringConstraints(pattern=r"\A(?!progressToken\Z|io\.modelcontextprotocol/|agent-utilities/)[^*]+\Z")
]
"""A key of `_meta`, but not the protocol's or the gateway's own."""
_Prefix = Annotated[
    str,
    StringConstraints(pattern=r"\A(?!.*_[0-9a-f]{12}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9_-]{0,38}[A-Za-z0-9])?)?\Z"),
]
"""A beginning of names that every host takes; none that ends like a hash, which could take the place of one."""
_Seconds = Annotated[float, Field(strict=True, gt=0, le=7 * 24 * 3600, allow_inf_nan=False)]


class ToolOverride(BaseModel):
    """The operator's changes to one tool of an upstream."""

    model_config = ConfigDict(frozen=True)

    description: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    """Tags beside the upstream's."""
    enabled: StrictBool = True
    """False: the tool is denied."""


class OAuthClient(BaseModel):
    """The gateway's OAuth client, for authorization servers that don't let clients register themselves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    client_id: str | None = None
    """The client's id there."""
    client_secret: SecretStr | None = None
    """Its secret; None for a public client."""
    client_metadata_url: str | None = Field(default=None, pattern=r"^https://[^/\s]+/\S+$")
    """The address of the client's metadata, which the operator publishes: the client's id where servers take it."""
    scopes: tuple[_Name, ...] = ()
    """The scopes to request; empty for those that the server names."""
    hosts: tuple[_Name, ...] = ()
    """Hosts, or patterns of them, that a login may lead to though their addresses are not public."""
    callback_port: int | None = Field(default=None, strict=True, gt=0, lt=65536)
    """The loopback port that the browser comes back to; None for any."""


class UpstreamConfig(BaseModel):
    """One server of a config file. Secrets are `SecretStr`s, so that no log, error or dump shows one."""

    model_config = ConfigDict(frozen=True, extra="forbid", regex_engine="python-re")

    name: str
    """The server's name in the file: its toolset, and the prefix of its tools where it has none of its own."""
    source: str
    """Its place in the file, such as `.mcp.json: mcpServers.git`."""
    transport: Transport
    command: str = ""
    """stdio: the program, as it stands in the file."""
    args: tuple[SecretStr, ...] = ()
    """stdio: its arguments; people put keys there."""
    env: Mapping[_Variable, SecretStr] = Field(default_factory=dict)
    """stdio: variables beside the few that every upstream gets."""
    env_file: str | None = None
    """stdio: a file whose variables are among them."""
    cwd: str | None = None
    """stdio: the folder it runs in; the config file's own where None."""
    url: SecretStr = SecretStr("")
    """http, sse: its address; people put keys there."""
    headers: Mapping[_Header, SecretStr] = Field(default_factory=dict)
    """http, sse: headers of every request."""
    auth: SecretStr | None = None
    """http, sse: `oauth`, or a bearer token."""
    oauth: OAuthClient | None = None
    """http, sse: the OAuth client; None where one is registered on the way."""
    credentials: Literal["gateway", "caller"] = "gateway"
    """http, sse: whose login it is reached by: the gateway's, or each caller's own."""
    forward_headers: tuple[_FoldedHeader, ...] = ()
    """http, sse: names of the caller's headers that cross, folded."""
    forward_meta: tuple[_MetaKey, ...] = ()
    """Keys of `_meta` of the caller's requests that cross beside the trace and the log level."""
    enabled: StrictBool = True
    """False: neither started nor listed."""
    allow: frozenset[_Name] | None = None
    """Names or globs of its tools, by its own names, that are permitted; None for all."""
    deny: frozenset[_Name] = frozenset()
    """Names or globs of its tools that are denied."""
    keys: Mapping[str, str] = Field(default_factory=dict)
    """By field, its key in the file: `deny` may be written as `disabledTools`."""
    lazy: StrictBool = True
    """False: its tools are pins, in every list where they are permitted."""
    prefix: _Prefix | None = None
    """The beginning of the names of its tools and prompts, before an underscore; its own name where None. Where it is
    empty they keep their own names, and a name that another lists too is left out of both."""
    tags: tuple[_Name, ...] = ()
    """Tags that each of its components has beside its own."""
    description: str = ""
    """Its purpose: context for ranking."""
    isolate: StrictBool = False
    """Whether every session gets a connection, and a process, of its own."""
    timeout_s: _Seconds = 300.0
    """Seconds a call may take without a sign of progress."""
    start_timeout_s: _Seconds = 60.0
    """Seconds until it has answered its first request."""
    list_timeout_s: _Seconds = 30.0
    """Seconds that each of its lists may take."""
    idle_s: _Seconds = 600.0
    """Seconds without a call after which it is stopped."""
    max_message_bytes: int = Field(default=Limits().message_bytes, strict=True, ge=2**16, le=2**30)
    """The most bytes of one message."""
    max_call_s: _Seconds | None = None
    """Seconds a call may take in all; an hour where None, or `timeout_s` where that is longer."""
    quota: Quota | None = None
    """The quota of its calls, for all callers together."""
    approve: ApproveRule | None = None
    """Which of its tools, by its own names, are called after a person's yes alone; None for none."""
    results: Mapping[str, ResultRule] = Field(default_factory=dict)
    """How the results of single tools are shortened, by the upstream's own names."""
    overrides: Mapping[str, ToolOverride] = Field(default_factory=dict)
    """The operator's changes to single tools, by the upstream's own names."""
    capabilities: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """By capability, the globs of the tools that it wants of this server; empty for a server of the configuration."""

    @property
    def limits(self) -> Limits:
        call_s = max(Limits().call_s, self.timeout_s) if self.max_call_s is None else self.max_call_s
        return Limits(message_bytes=self.max_message_bytes, call_s=call_s)

    @cached_property
    def digest(self) -> str:
        """A hash of the upstream's identity, 32 hex digits; no value of a variable or header is part of it."""
        identity = {
            **{key: getattr(self, key) for key in ("name", "transport", "command", "cwd")},
            **{"env": sorted(self.env), "headers": sorted(self.headers), "url": self.url.get_secret_value()},
            "args": [arg.get_secret_value() for arg in self.args],
        }
        return blake2b(json.dumps(identity, sort_keys=True).encode(), digest_size=16).hexdigest()


class GatewayConfig(BaseModel):
    """Every upstream that the files configure, and what is wrong with the files."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    upstreams: tuple[UpstreamConfig, ...] = ()
    """In the files' order, a later file's server in the place of an earlier one's of its name."""
    problems: tuple[str, ...] = ()
    """One line each: file, server, key, value, and what would be valid. The servers they concern are left out."""
    notices: tuple[str, ...] = ()
    """One line each about what is ignored and harms nothing, such as unknown keys."""
    files: tuple[str, ...] = ()
    """The files that were read, in order."""
    digests: Mapping[str, str] = Field(default_factory=dict)
    """By file, a hash of the content that was read: what a user agrees to is what is run."""
