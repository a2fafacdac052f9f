"""Denies that a component brings along from the operator's configuration, such as a gateway's `mcp.json`."""

from __future__ import annotations

from dataclasses import replace

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.decision import decide
from agent_utilities.selection.merge import effective, merge
from agent_utilities.selection.model import Selection
from agent_utilities.selection.parse import read_cli, read_request

ORIGIN = ".mcp.json: mcpServers.git.disabledTools"
LOG = entry("tool", "git_log", tags={"git"}, read_only=True)
PUSH = entry("tool", "git_push", tags={"git"}, denied_by=ORIGIN)
CATALOG = Catalog((LOG, PUSH))


def held(selection=None):
    return replace(effective(selection or Selection()), configured=True)


def permitted(settings):
    decision = decide(CATALOG, settings)
    return [decision.catalog.entries[i].name for i in decision.permitted]


class TestConfiguredDenies:
    def test_what_is_denied_is_not_permitted_and_the_origin_is_told(self):
        decision = decide(CATALOG, held())
        assert [rule.text if rule else None for rule in decision.refusals] == [
            None,
            f"denied in its configuration ({ORIGIN})",
        ]

    def test_neither_an_allow_of_the_operator_nor_of_a_caller_lifts_it(self):
        selection = merge(read_cli([("--tools", "git_push,git_log")]), read_request(b"tools=git_push,git_log", ()))
        assert permitted(held(selection)) == ["git_log"]

    def test_a_name_that_it_denies_is_unknown_to_a_caller(self):
        decision = decide(CATALOG, held(read_request(b"tools=git_push", ())))
        assert decision.unknown == {"git_push": None}

    def test_a_server_without_configured_denies_reads_none(self):
        assert permitted(effective(Selection())) == ["git_log", "git_push"]

    def test_catalogs_and_bounds_with_and_without_a_deny_differ(self):
        assert CATALOG.digest != Catalog((LOG, replace(PUSH, denied_by=None))).digest
        assert held().bounds_digest != effective(Selection()).bounds_digest
