"""What an upstream's configuration says of single tools."""

from __future__ import annotations

from agent_utilities.gateway.upstreams.config import ToolOverride, UpstreamConfig
from agent_utilities.gateway.upstreams.operator.operator_rules import denied_by


def configured(**rules):
    return UpstreamConfig(name="git", source=".mcp.json: mcpServers.git", transport="stdio", command="x", **rules)


class TestDeniedBy:
    def test_names_the_file_and_the_key(self):
        for rules, tool, origin in [
            ({}, "push", None),
            ({"deny": frozenset({"push"})}, "push", "disabledTools"),
            ({"deny": frozenset({"push"})}, "pull", None),
            ({"deny": frozenset({"PUSH"})}, "push", "disabledTools"),
            ({"deny": frozenset({"pu*"})}, "pull", "disabledTools"),
            ({"deny": frozenset({"push"}), "keys": {"deny": "excludeTools"}}, "push", "excludeTools"),
            ({"allow": frozenset({"log*"})}, "push", "onlyAllow"),
            ({"allow": frozenset({"log*"})}, "log_all", None),
            ({"allow": frozenset()}, "log", "onlyAllow"),
            ({"allow": frozenset({"push"}), "deny": frozenset({"push"})}, "push", "disabledTools"),
            ({"overrides": {"push": ToolOverride(enabled=False)}}, "push", "tools.push.enabled"),
            ({"overrides": {"push": ToolOverride(title="Push")}}, "push", None),
        ]:
            expected = None if origin is None else f".mcp.json: mcpServers.git.{origin}"
            assert denied_by(configured(**rules), tool) == expected
