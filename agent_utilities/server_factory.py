"""`create_mcp_server()` and `create_gateway()`: the features of each kind of server. No other file knows them all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from agent_utilities.selection.model import NO_LIMIT, NOTHING
from agent_utilities.server.agent_server import AgentServer
from agent_utilities.server.command_line import installed_version
from agent_utilities.server.feature_order import Later

if TYPE_CHECKING:
    from agent_utilities.compat.fastmcp_server import FastMCPOptions
    from agent_utilities.gateway.capabilities.servers import Offer
    from agent_utilities.gateway.upstreams.config import GatewayConfig
    from agent_utilities.gateway.upstreams.operator.operator_rules import ConfigFiles
    from agent_utilities.query.graph.base import ToolGraph
    from agent_utilities.seam.feature import Feature

    Config = GatewayConfig | Mapping[str, Any] | str | Path | Sequence[str | Path]

ACCESS = Later("agent_utilities.access.feature:AccessControl", ("auth_tokens", "auth_issuer", "access"))
AUDIT = Later("agent_utilities.access.record.feature:Audit", ("audit_file",))
FLEET = Later("agent_utilities.fleet.feature:Fleet", ("state_url",))
PAGE = [
    Later("agent_utilities.page.app:ContextApp", ("page_app",)),
    Later("agent_utilities.page.feature:Page", ("page",)),
]
RESULTS = [
    Later(
        "agent_utilities.results.making_visible:Invisible",
        wanted=lambda: True,
        is_off=lambda operator: operator.settings.invisible in ("auto", "keep"),
    ),
    Later(
        "agent_utilities.results.feature:Results",
        wanted=lambda: True,
        is_off=lambda operator: operator.effective(NOTHING).budget.operator == NO_LIMIT,
    ),
]
RESULTS_OF_GATEWAY = [
    replace(RESULTS[0], is_off=lambda operator: operator.settings.invisible == "keep"),
    replace(RESULTS[1], place="agent_utilities.results.feature:for_gateway"),
]
PROGRAMS = Later(
    "agent_utilities.programs.feature:Programs",
    wanted=lambda: True,
    is_off=lambda operator: operator.settings.programs == "off",
)
QUOTAS = Later("agent_utilities.access.quotas:Quotas", ("quota",))
APPROVALS = Later(
    "agent_utilities.approvals.feature:Approvals",
    ("approve",),
    wanted=lambda: True,
    is_off=lambda operator: not (operator.settings.approve or operator.settings.programs == "all"),
)

_LOGINS = "agent_utilities.gateway.logins.feature:Logins"


def create_mcp_server(
    name: str,
    instructions: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    graph: ToolGraph | None = None,
    features: Iterable[Feature] = (),
    **options: Unpack[FastMCPOptions],
) -> AgentServer:
    """Create a FastMCP server with a bounded tool surface, five channels, a command line and HTTP routes.

    The surface that a caller sees is the operator's (environment and command line), cut down by the request's URL
    query, headers and `_meta`; a caller can narrow it and never widen it.

    Args:
        name: the server's name, as clients see it. The version of an installed package of this name is the server's,
            unless `version` is set. Without either the server has none.
        instructions: what the server is for, as models read it.
        environ: the environment to read `MCP_*` variables from; the process's by default, read when first needed.
        graph: the graph that queries are resolved on, instead of the one that the environment configures.
        features: the author's own features, called after the server's; see `Feature`.
        options: anything that `fastmcp.FastMCP` takes: `auth`, `lifespan`, `middleware`, `tools`, ...
    """
    if "version" not in options:
        options["version"] = installed_version(name)
    every = [*default_features(graph), *features]
    return AgentServer(name, instructions, environ=environ, features=every, **options)


def default_features(graph: ToolGraph | None = None) -> list[Feature | Later]:
    """Return the features of a server, in the order of calls.

    Tool search comes before the query, since it may have answered that for a turn.

    Args:
        graph: the graph that queries are resolved on; the configured one where None.
    """
    from agent_utilities.context.feature import ContextReport  # a server of the author's own features has none
    from agent_utilities.query.feature import Query
    from agent_utilities.search.feature import ToolSearch
    from agent_utilities.usage.feature import Usage

    first: list[Feature | Later] = [FLEET, ACCESS, AUDIT, APPROVALS, QUOTAS, Usage()]
    return [*first, ToolSearch(), Query(graph), *RESULTS, PROGRAMS, ContextReport(), *PAGE]


AgentServer.default_features = default_features


def create_gateway(
    config: Config,
    name: str = "gateway",
    instructions: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    graph: ToolGraph | None = None,
    features: Iterable[Feature] = (),
    **options: Unpack[FastMCPOptions],
) -> AgentServer:
    """Create a gateway: a server that bounds every server of an `mcp.json`, and starts one when it is called.

    Args:
        config: a file, or several, later over earlier by server name; or the content of one, as a mapping.
        name: the gateway's name, as clients see it.
        instructions: what the gateway is for, as models read it; by default its upstreams' own instructions.
        environ: the environment to read `MCP_*` variables, and the config's variables, from.
        graph, features, options: as for `create_mcp_server`.

    Raises:
        ConfigError: no file can be read. An invalid server is left out, and reported in `config.problems`.
    """
    from agent_utilities.gateway.upstreams.config import GatewayConfig
    from agent_utilities.gateway.upstreams.configuration.config_files import read_config, read_servers
    from agent_utilities.gateway.upstreams.operator.operator_rules import ConfigFiles

    variables = os.environ if environ is None else environ
    files = None
    match config:
        case GatewayConfig():
            read = config
        case Mapping():
            read = read_servers(config, variables)
        case _:
            paths = [Path(config)] if isinstance(config, str | Path) else [Path(file) for file in config]
            read = read_config(paths, variables)
            files = ConfigFiles(paths, variables, read) if paths else None
    every = [*gateway_features(read, files, graph=graph), *features]
    return gateway_of(every, name, instructions, environ=environ, **options)


def gateway_features(
    config: GatewayConfig,
    files: ConfigFiles | None = None,
    *,
    offer: Offer | None = None,
    started_s: float | None = None,
    graph: ToolGraph | None = None,
) -> list[Feature | Later]:
    """Return the features of a gateway, in the order of calls.

    Capabilities come before tool search, so that the tools they switch on are not deferred. Graph and index are made
    after the first lists, unless a query comes: they take longer than all else of a gateway.

    Args:
        config: the upstreams' configuration.
        files: the files to read it from again when they change; None where it stays as it is.
        offer: the capabilities that callers may switch on, or None.
        started_s: the `time.monotonic()` of its start, from which on callers wait for it; None for the time when it is
            first served.
        graph: the graph that queries are resolved on; the configured one where None.
    """
    from agent_utilities.context.feature import ContextReport  # what is no gateway imports none of it
    from agent_utilities.gateway.feature import Upstreams
    from agent_utilities.query.feature import Query
    from agent_utilities.search.feature import ToolSearch
    from agent_utilities.usage.feature import Usage

    upstreams = Upstreams(config, files, started_s)
    switched: list[Feature] = []
    if offer is not None:
        from agent_utilities.gateway.capabilities.feature import Capabilities

        switched = [Capabilities(offer)]
    quotas = replace(QUOTAS, wanted=upstreams.quotas)
    approvals = replace(APPROVALS, is_off=lambda of: APPROVALS.is_off(of) and not upstreams.approve_rules())
    logins = Later(_LOGINS, ("secret_key", "secret_key_file"), wanted=upstreams.of_callers)
    first: list[Feature | Later] = [FLEET, ACCESS, AUDIT, approvals, quotas, Usage(counts_by_default=True)]
    search = [*switched, ToolSearch(), Query(graph, yields=True)]
    return [*first, upstreams, logins, *search, *RESULTS_OF_GATEWAY, PROGRAMS, ContextReport(), *PAGE]


def gateway_of(
    features: Iterable[Feature | Later],
    name: str,
    instructions: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    **options: Unpack[FastMCPOptions],
) -> AgentServer:
    """Create a gateway of some features; see `create_gateway`."""
    options.setdefault("version", installed_version("agent-utilities"))
    # An upstream's schemas are passed on as they are, and not scanned for references at every list.
    options.setdefault("dereference_schemas", False)
    return AgentServer(name, instructions, environ=environ, features=features, **options)
