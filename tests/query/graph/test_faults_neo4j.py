"""A Neo4j that fails, as a real process or socket: every list answers in time, and it recovers without a restart."""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise
from statistics import median

import pytest

from tests.query.graph.agents import PERMITTED, SLOW_S, Agent, serving
from tests.query.graph.conftest import Measured
from tests.query.graph.neo4j_servers import Access, CrashingNeo4j
from tests.query.graph.proxies import relayed, silent, unused_port

N_LISTS = 15
RECOVERS_S = 30


FAILED = "graph too slow|graph unreachable"
"""What is logged once for each time that the graph stops answering."""
ANSWERS = "graph answers"
"""What is logged once for each time that it answers again."""


def lists_of_a_failed_graph(agent: Agent, causes: Collection[str], n_lists: int = N_LISTS) -> set[str]:
    """List with queries never asked before, check that the ranker alone answers each, in time; return causes.

    On a busy machine it answers after the deadline now and then, and says so. A process that has just started has no
    words yet, for as long as it reads them.
    """
    agent.until(lambda: agent.tools(agent.fresh_query()).status != "unavailable", RECOVERS_S, "answered by words")
    told, took_s = set(), []
    for _ in range(n_lists):
        listed = agent.tools(agent.fresh_query())
        cause = str(listed.cause).removeprefix("graph ")
        assert cause in {*causes, "too slow"}, f"{cause}: {agent.lines[-20:]}"
        assert listed.status == "ranked"
        assert "dns_read" in listed.names
        assert set(listed.names) < PERMITTED
        took_s.append(listed.took_s)
        told.add(cause)
    assert median(took_s) < SLOW_S
    agent.until(lambda: agent.ready()["status"] == "unavailable", RECOVERS_S, "known not to answer")
    health = agent.ready()
    assert health["backend"] == "neo4j"
    assert health["cause"] in causes
    return told


def check_answers(agent: Agent) -> None:
    """Wait for an answer: a Neo4j that has just started plans its first queries for longer than the deadline."""
    agent.until(lambda: agent.tools(agent.fresh_query()).status == "fresh", RECOVERS_S, "answered")
    listed = agent.tools(agent.fresh_query())
    if listed.status == "fresh":
        assert listed.cause is None
        assert "dns_read" in listed.names
        assert set(listed.names) < PERMITTED
    else:
        assert (listed.status, listed.cause) in {("ranked", "too slow"), ("ranked", "graph too slow")}


def check_recovers(agent: Agent) -> float:
    """Wait until a query that was not asked before is answered again; lists on the way are within their time."""
    took_s: list[float] = []

    def answered() -> bool:
        listed = agent.tools(agent.fresh_query())
        assert set(listed.names) <= PERMITTED
        took_s.append(listed.took_s)
        return listed.status == "fresh"

    seconds = agent.until(answered, RECOVERS_S, "recovered")
    assert median(took_s) < SLOW_S
    check_answers(agent)
    assert agent.ready()["status"] == "ready"
    return seconds


def check_said_once_an_outage(agent: Agent, since: int = 0) -> None:
    """One warning tells the operator that it fails, and one line that it answers again, in turns.

    An answer that comes late, on a busy machine, ends an outage, which may then begin again.

    Args:
        agent: the process.
        since: how many of its lines are left out.
    """
    said = [line for line in agent.lines[since:] if re.search(f"WARNING .*?: (?:{FAILED})|INFO .*?: {ANSWERS}", line)]
    ends = [ANSWERS in line for line in said]
    assert ends[:1] == [False], said
    assert ends[-1:] == [True], said
    assert all(was != now for was, now in pairwise(ends)), said


def test_killed_mid_traffic_and_down_at_start_and_back(crashing_neo4j: CrashingNeo4j, measured: Measured) -> None:
    environ = crashing_neo4j.access.environ
    with serving(environ) as agent:
        agent.until_ready()
        check_answers(agent)
        since = len(agent.lines)
        agent.until(lambda: agent.tools("dns").status == "fresh", RECOVERS_S, "answered")
        cached = agent.tools("dns")
        crashing_neo4j.kill()
        lists_of_a_failed_graph(agent, ["unreachable"])
        assert agent.tools("dns").names == cached.names
        with serving(environ) as late:
            lists_of_a_failed_graph(late, ["unreachable", "being filled"])
            crashing_neo4j.start()
            recovers_s = check_recovers(agent)
            fills_s = late.until_ready(2 * RECOVERS_S)
            check_answers(late)
            check_said_once_an_outage(late)
            measured("tools/list?q=, Neo4j down at start", late.took_s)
            measured("recovery after it was back: down at start", [recovers_s + fills_s])
        measured("tools/list?q=, Neo4j killed and back", agent.took_s)
        measured("recovery after it was back: killed mid-traffic", [recovers_s])
        check_said_once_an_outage(agent, since)


class TestHangs:
    def test_halted_mid_traffic_and_goes_on(self, crashing_neo4j: CrashingNeo4j, measured: Measured) -> None:
        with serving(crashing_neo4j.access.environ) as agent:
            agent.until_ready()
            check_answers(agent)
            since = len(agent.lines)
            crashing_neo4j.stop()
            lists_of_a_failed_graph(agent, ["too slow", "unreachable"])
            crashing_neo4j.go_on()
            recovers_s = check_recovers(agent)
            measured("tools/list?q=, Neo4j halted and goes on", agent.took_s)
            measured("recovery after Neo4j went on", [recovers_s])
            check_said_once_an_outage(agent, since)

    def test_takes_connections_and_never_answers(self, measured: Measured) -> None:
        with silent() as port, serving({"NEO4J_URI": f"bolt://127.0.0.1:{port}"}) as agent:
            agent.until(lambda: agent.ready().get("cause") in ("too slow", "unreachable"), 10, "told in time")
            lists_of_a_failed_graph(agent, ["too slow", "unreachable"])
            assert len(agent.said("graph (too slow|unreachable)")) == 1
            measured("tools/list?q=, accepts and never answers", agent.took_s)

    def test_two_seconds_slow_and_fast_again(self, neo4j_server: Access, measured: Measured) -> None:
        with relayed(int(neo4j_server.uri.rpartition(":")[2])) as relay:
            environ = {**neo4j_server.environ, "NEO4J_URI": f"bolt://127.0.0.1:{relay.port}"}
            with serving(environ) as agent:
                agent.until_ready()
                check_answers(agent)
                since = len(agent.lines)
                relay.delay_s = 2.0
                lists_of_a_failed_graph(agent, ["too slow", "unreachable"])
                relay.delay_s = 0.0
                recovers_s = check_recovers(agent)
                check_said_once_an_outage(agent, since)
                measured("tools/list?q=, Neo4j 2 s slow", agent.took_s)
                measured("recovery after Neo4j was fast again", [recovers_s])

    @pytest.mark.nightly
    def test_two_seconds_slow_from_the_start(self, neo4j_server: Access) -> None:
        with relayed(int(neo4j_server.uri.rpartition(":")[2])) as relay:
            relay.delay_s = 2.0
            with serving({**neo4j_server.environ, "NEO4J_URI": f"bolt://127.0.0.1:{relay.port}"}) as agent:
                agent.until(lambda: agent.ready().get("cause") in ("too slow", "unreachable"), 10, "told in time")
                lists_of_a_failed_graph(agent, ["too slow", "unreachable"])
                relay.delay_s = 0.0
                agent.until_ready(60)
                check_answers(agent)


class TestRefused:
    def test_wrong_password_and_then_the_right_one(self, crashing_neo4j: CrashingNeo4j, measured: Measured) -> None:
        access = crashing_neo4j.access
        given = {**access.environ, "NEO4J_PASSWORD": "wrong-password"}
        with serving(given) as agent:
            agent.until(lambda: agent.ready().get("cause") == "not authorized", 10, "told in time")
            lists_of_a_failed_graph(agent, ["not authorized"])
            secret = str(access.password)
            assert not any(secret in line or "wrong-password" in line for line in agent.lines)
            assert len(agent.said("graph not authorized")) == 1
            try:
                access.run("ALTER CURRENT USER SET PASSWORD FROM $old TO $new", old=secret, new="wrong-password")
                agent.until_ready(RECOVERS_S)
                check_answers(agent)
            finally:
                access.close()
                changed = Access(access.uri, access.username, "wrong-password")
                changed.run("ALTER CURRENT USER SET PASSWORD FROM $old TO $new", old="wrong-password", new=secret)
                changed.close()
            measured("tools/list?q=, wrong password", agent.took_s)


def test_nobody_listens(measured: Measured) -> None:
    with serving({"NEO4J_URI": f"bolt://127.0.0.1:{unused_port()}"}) as agent:
        lists_of_a_failed_graph(agent, ["unreachable", "being filled"])
        agent.until(lambda: agent.ready().get("cause") == "unreachable", 5, "told in time")
        measured("tools/list?q=, nobody listens", agent.took_s)
        assert len(agent.said("graph unreachable")) == 1
