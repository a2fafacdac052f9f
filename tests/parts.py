"""The parts of a server that tests look into, and gateways put together with chosen parts."""

from __future__ import annotations

from typing import Any, TypeVar

from agent_utilities import AgentServer
from agent_utilities.gateway.capabilities.feature import Capabilities
from agent_utilities.gateway.feature import Upstreams
from agent_utilities.gateway.upstreams.config import GatewayConfig
from agent_utilities.query.feature import Query
from agent_utilities.seam.feature import Feature
from agent_utilities.seam.host import find
from agent_utilities.search.feature import ToolSearch
from agent_utilities.server_factory import gateway_features, gateway_of
from agent_utilities.usage.feature import Usage

_F = TypeVar("_F", bound=Feature)


def part(server: AgentServer, kind: type[_F]) -> _F:
    """Return the feature of a class that a server has."""
    found = find(server, kind)
    assert found is not None
    return found


def query_of(server: AgentServer) -> Query:
    """Return what resolves a server's queries."""
    return part(server, Query)


def usage_of(server: AgentServer) -> Usage:
    """Return a server's usage log."""
    return part(server, Usage)


def search_of(server: AgentServer) -> ToolSearch:
    """Return a server's tool search."""
    return part(server, ToolSearch)


def upstreams_of(server: AgentServer) -> Upstreams:
    """Return a gateway's upstreams."""
    return part(server, Upstreams)


def capabilities_of(server: AgentServer) -> Capabilities:
    """Return a gateway's capabilities."""
    return part(server, Capabilities)


def gateway_with(config: GatewayConfig, name: str = "gateway", **options: Any) -> AgentServer:
    """Return a gateway; see `gateway_features` and `gateway_of` for options."""
    of_features = ("files", "offer", "started_s", "graph")
    given = {key: options.pop(key) for key in of_features if key in options}
    return gateway_of(gateway_features(config, **given), name, **options)
