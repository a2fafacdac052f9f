"""A Neo4j that takes no writes: what it holds answers, and where it holds nothing all that is permitted is shown."""

from __future__ import annotations

import pytest

from tests.query.graph.agents import serving
from tests.query.graph.conftest import Measured
from tests.query.graph.neo4j_servers import CrashingNeo4j
from tests.query.graph.test_faults_neo4j import check_answers, lists_of_a_failed_graph


@pytest.mark.nightly
def test_read_only(crashing_neo4j: CrashingNeo4j, measured: Measured) -> None:
    environ = crashing_neo4j.access.environ
    with serving(environ) as agent:
        agent.until_ready()
    crashing_neo4j.shut_down()  # after a crash there is something to recover, and that takes writes
    crashing_neo4j.start(server__databases__default_to_read_only="true")
    try:
        with serving(environ) as agent:
            agent.until(lambda: agent.tools("dns").status == "fresh", 10, "what it holds answers")
            check_answers(agent)
            measured("tools/list?q=, read-only, filled", agent.took_s)
            agent.until(lambda: len(agent.said("graph read-only")) >= 1, 10, "told that it can't be refreshed")
            for _ in range(40):
                agent.until(lambda: agent.tools(agent.fresh_query()).status == "fresh", 5, "what it holds answers")
            said = agent.said("graph read-only: ")
        with serving({**environ, "GRAPHED_NAME": "unheard"}) as agent:
            agent.until(lambda: agent.ready().get("cause"), 10, "told in time")
            lists_of_a_failed_graph(agent, ["read-only"])
            assert len(agent.said("can't apply the graph's schema .*read-only")) == 1
            assert len(agent.said("graph read-only: .*the ranker alone answers")) == 1
            measured("tools/list?q=, read-only, empty", agent.took_s)
    finally:
        crashing_neo4j.kill()
    assert len([line for line in said if "the ranker alone answers" in line]) <= 1, said
