"""Servers that capabilities bring along, as upstreams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_utilities.upstream.config import UpstreamConfig


@dataclass(frozen=True, eq=False)
class CapabilityServers:
    configs: Mapping[str, UpstreamConfig] = field(default_factory=dict)
    by_capability: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
