"""A capability's patterns are of its servers, and nothing of another's namespace is."""

from __future__ import annotations

from pathlib import Path

from agent_utilities.gateway.capabilities.model import Capability, CapabilityServer


def wanted(allowed: tuple[str, ...] | None, tools: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the globs of the tools that are wanted of a server `code`."""
    servers = (CapabilityServer("code", {"command": "code"}, tools), CapabilityServer("docs", {"command": "docs"}))
    return Capability("code", "code/x.toml", Path("code"), allowed_tools=allowed, servers=servers).patterns_for("code")


def test_patterns_lose_their_namespace_and_others_are_dropped() -> None:
    assert wanted(None) == wanted(("code:*",)) == ("*",)
    assert wanted(("code:view", "code:find_*")) == ("view", "find_*")
    assert wanted(("view", "code:view")) == ("view",)
    assert wanted(("docs:*",)) == wanted(()) == ()


def test_the_tools_of_a_server_block_narrow_what_is_wanted_of_it() -> None:
    assert wanted(("code:*",), ("view", "find")) == ("view", "find")
    assert wanted(("code:v*",), ("view", "find")) == ("view",)
