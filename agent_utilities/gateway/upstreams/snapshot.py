"""What an upstream last listed: a value, from which every list is answered."""

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
    """An upstream's components as it listed them, in its own order and under its own names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upstream: str
    """The upstream's name."""
    config_digest: str
    """`UpstreamConfig.digest` of the config that it was taken with; one with another is not its."""
    taken_at_s: float
    """When it was taken, UTC seconds since 1970."""
    protocol_version: str
    """The version that was negotiated, so that the next connection need not probe for its era."""
    server_info: Mapping[str, Any] = {}
    """The upstream's name, version, title as it tells them."""
    instructions: str | None = None
    """What it says of itself to models."""
    capabilities: Mapping[str, Any] = {}
    """What it can do, as it tells it."""
    tools: tuple[Item, ...] = ()
    """Its tools, as they came."""
    prompts: tuple[Item, ...] = ()
    """Its prompts, likewise."""
    resources: tuple[Item, ...] = ()
    """Its resources."""
    templates: tuple[Item, ...] = ()
    """Its resource templates."""
    skills: tuple[Item, ...] = ()
    """Its skills, each with its files."""
    problems: tuple[str, ...] = ()
    """One line for each component that could not be taken, such as a tool whose schema is none."""

    n_absent: int = 0
    """Of a gateway, how many of its own servers it had not reached yet: what they have comes later."""

    @property
    def has_skills(self) -> bool:
        """Whether it says that it has skills; it need not list them."""
        return SKILLS_EXTENSION in self.capabilities.get("extensions", {})

    @cached_property
    def digest(self) -> str:
        """A hash over what is listed, 32 hex digits: equal ones list the same, whenever they were taken."""
        listed = self.model_dump_json(exclude={"taken_at_s", "protocol_version", "problems", "n_absent"}, by_alias=True)
        return blake2b(listed.encode(), digest_size=16).hexdigest()
