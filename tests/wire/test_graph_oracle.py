"""Queries are answered from a graph that holds every tool; what is denied must not show through the answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from urllib.parse import quote

import pytest

from tests.every import every, every_of
from tests.wire.expected import LAUNCHES, TOOLS
from tests.wire.processes import Launch, served
from tests.wire.wires import HTTP_WIRES, Access, WireName, names

REGISTERED = [name for name in TOOLS if name != "added_peek"]
SUMMARY = "agent-utilities/selection"
PATIENT = (("MCP_GRAPH", "embedded"), ("MCP_GRAPH_DEADLINE_MS", "10000"))
"""A graph, and a deadline that a busy machine keeps."""
FILLED = re.compile(r"graph holds \d+ tools of bounded")
INDEXED = re.compile(r"index of \d+ tools is ready")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Access]]:
    """The bounded server with an embedded graph that is filled, once for each launch."""
    with ExitStack() as stack:
        found = {}
        for name, launch in LAUNCHES.items():
            folder = str(tmp_path_factory.mktemp(name))
            env = (*launch.env, *PATIENT, ("MCP_GRAPH_FOLDER", folder))
            process = stack.enter_context(served(Launch(env=env, options=launch.options)))
            process.wait_for(FILLED)
            process.wait_for(INDEXED)
            found[name] = stack.enter_context(closing(Access(process.url)))
        yield found


def seen(access: Access, wire: WireName, query: str) -> tuple[list[str], str]:
    """Return the tools that a query shows, but for an injected one, and the status it is given."""
    with access.calling(wire, f"?q={quote(query)}") as caller:
        shown = [name for name in names(caller, "tools/list") if name in REGISTERED]
        return shown, caller.ask("tools/list").result["_meta"][SUMMARY]["status"]


@every_of("graph", "graphs")
@every("http_wire", HTTP_WIRES)
def test_a_query_shows_what_it_fits(graph: Access, http_wire: WireName) -> None:
    assert seen(graph, http_wire, "look") == (["far_look"], "fresh")


@every_of("graph", "graphs")
@every("http_wire", HTTP_WIRES)
@every("query", ["wipe", "burn", "stray", "delete", "sealed"])
def test_a_query_for_what_is_denied_shows_all_that_is_permitted(graph: Access, http_wire: WireName, query: str) -> None:
    assert seen(graph, http_wire, query)[0] == REGISTERED


@every_of("graph", "graphs")
@every("http_wire", HTTP_WIRES)
@every(
    "query", ["wipe", "wipe_notes", "wipe_", "burn", "stray_tool", "delete", "sealed", "wipe the notes", "burn a note"]
)
def test_a_query_for_what_is_denied_reads_like_one_for_nothing(graph: Access, http_wire: WireName, query: str) -> None:
    assert seen(graph, http_wire, query) == seen(graph, http_wire, f"qq{query[2:]}")


@every_of("graph", "graphs")
@every("http_wire", HTTP_WIRES)
@every(
    ("start", "nonsense"),
    [
        ("wipe_n", "qqpe_n"),
        ("write_", "qqite_"),
        ("append_note", "qqpend_note"),
        ("stray_t", "qqray_t"),
        ("panel_w", "panel_q"),
        ("burn", "qqrn"),
    ],
)
def test_a_denied_name_cannot_be_guessed_letter_by_letter(
    graph: Access, http_wire: WireName, start: str, nonsense: str
) -> None:
    assert seen(graph, http_wire, f"{start} read") == seen(graph, http_wire, f"{nonsense} read")


@every_of("graph", "graphs")
@every("http_wire", HTTP_WIRES)
def test_the_words_of_a_denied_version_find_nothing(graph: Access, http_wire: WireName) -> None:
    assert seen(graph, http_wire, "leaked") == seen(graph, http_wire, "leakqq")


@every_of("graph", "graphs")
def test_readiness_names_no_tool(graph: Access) -> None:
    body = graph.http.get("/ready").body.decode()
    assert [name for name in TOOLS if name in body] == []


@every_of("graph", "graphs")
@every("http_wire", HTTP_WIRES)
@every("query", ["'; MATCH (n) DETACH DELETE n //", "$query", "*", "%", "\\", '"', "`", "}) RETURN 1 //"])
def test_a_query_is_text_and_nothing_else(graph: Access, http_wire: WireName, query: str) -> None:
    assert (seen(graph, http_wire, query)[0], seen(graph, http_wire, "look")[0]) == (REGISTERED, ["far_look"])


@pytest.fixture(scope="module")
def roles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A server with a tool that admits administrators only, its graph filled."""
    env = (*PATIENT, ("MCP_GRAPH_FOLDER", str(tmp_path_factory.mktemp("roles"))))
    with served(Launch(env=env, script="roles_server.py")) as process:
        process.wait_for(INDEXED)
        process.wait_for(re.compile(r"graph holds \d+ tools of roles"))
        with closing(Access(process.url)) as access:
            yield access


def told(access: Access, wire: WireName, query: str, token: str) -> tuple[list[str], str]:
    """Return the tools that a query shows the bearer of a token, and the status it is given."""
    with access.calling(wire, f"?q={quote(query)}", headers=[("authorization", f"Bearer {token}")]) as caller:
        result = caller.ask("tools/list").result
        return [tool["name"] for tool in result["tools"]], result["_meta"][SUMMARY]["status"]


class TestToolsWithTheirOwnAuth:
    @every("http_wire", HTTP_WIRES)
    def test_a_query_shows_them_to_those_they_admit(self, roles: Access, http_wire: WireName) -> None:
        assert told(roles, http_wire, "boss", "admin") == (["boss_tool"], "fresh")

    @every("http_wire", HTTP_WIRES)
    @every("query", ["boss", "boss_tool"])
    def test_to_others_a_query_for_them_is_one_for_nothing(
        self, roles: Access, http_wire: WireName, query: str
    ) -> None:
        assert told(roles, http_wire, query, "user") == (["shared"], "no_match")
