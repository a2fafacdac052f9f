"""The snapshot of an upstream's components, from which every list is answered."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Any

from pydantic import BaseModel, ConfigDict

from agent_utilities.protocol.fit import SKILLS_EXTENSION

Item = dict[str, Any]
"""A component as its upstream lists it."""


class Snapshot(BaseModel):
    """An upstream's components as it last listed them, in its own order and under its own names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upstream: str
    """The upstream's name."""
    config_digest: str
    """`UpstreamConfig.digest` of the config that it was taken with; it is invalid for any other."""
    taken_at_s: float
    """When it was taken, UTC seconds since 1970."""
    protocol_version: str
    """The negotiated version, so that the next connection need not probe for the era."""
    server_info: Mapping[str, Any] = {}
    """The upstream's own name, version and title."""
    instructions: str | None = None
    """Its instructions to models."""
    capabilities: Mapping[str, Any] = {}
    """Its capabilities as it announced them, by which it is asked for lists."""
    tools: tuple[Item, ...] = ()
    """Its tools, in its own order."""
    prompts: tuple[Item, ...] = ()
    """Its prompts, likewise."""
    resources: tuple[Item, ...] = ()
    templates: tuple[Item, ...] = ()
    """Its resource templates."""
    skills: tuple[Item, ...] = ()
    """Its skills, each with its files."""
    problems: tuple[str, ...] = ()
    """One line for each component that could not be taken, such as a tool with an invalid schema."""
    n_absent: int = 0
    """Of a gateway, the number of its own servers that it had not reached yet."""

    @property
    def has_skills(self) -> bool:
        """Whether it announces skills; it need not list them."""
        return SKILLS_EXTENSION in self.capabilities.get("extensions", {})

    @cached_property
    def digest(self) -> str:
        """A hash of the components, 32 hex digits: equal for equal lists, whenever they were taken."""
        listed = self.model_dump_json(exclude={"taken_at_s", "protocol_version", "problems", "n_absent"}, by_alias=True)
        return blake2b(listed.encode(), digest_size=16).hexdigest()
