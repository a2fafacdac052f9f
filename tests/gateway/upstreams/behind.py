"""A server behind a gateway that gives its components no prefix: what tests say of the server, they say of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio

from agent_utilities import AgentServer, create_gateway
from agent_utilities.gateway.upstreams.names import Namespace

ONLY = "it"
"""The name of the one upstream."""


def gateway_before(server: Mapping[str, Any], name: str, **options: Any) -> AgentServer:
    """Return a gateway in front of one server, whose components it already knows.

    How names are prefixed is tested elsewhere; in this process no name is, from now on.

    Args:
        server: as a config describes it.
        name: the gateway's name.
        options: of `create_gateway`.
    """
    Namespace.namespaced = lambda self, upstream, name: name  # type: ignore[method-assign]
    config = {"mcpServers": {ONLY: dict(server)}}
    # What this one learns is kept in the folder of snapshots.
    anyio.run(create_gateway(config, name, **options).pending.know_everything)
    return create_gateway(config, name, **options)
