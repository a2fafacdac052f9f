"""What capabilities did is told to operators: in metrics, log lines, span events, health, and by `explain`."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from agent_utilities import AgentServer
from agent_utilities.cli.explain import _capability_lines
from agent_utilities.gateway.capabilities.caller import CapabilitiesSwitched, WordsRouted
from agent_utilities.seam.events import Event
from agent_utilities.server.metrics import Metrics
from tests.gateway.capabilities.capable import gateway, listed, offer, session, switched
from tests.parts import capabilities_of
from tests.server.spans import span_exporter

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

WORDS = "please show the git log of this project"


class Heard:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.switches: list[CapabilitiesSwitched] = []
        self.routes: list[WordsRouted] = []

    def __call__(self, event: Event) -> None:
        match event:
            case CapabilitiesSwitched():
                self.switches.append(event)
            case WordsRouted():
                self.routes.append(event)


@pytest.fixture
def served(tmp_path: Path) -> AgentServer:
    return gateway(tmp_path, offer(most=1))


async def test_words_are_told_by_where_they_led_and_never_as_they_stand(
    served: AgentServer, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    served.features.observe(heard)
    metrics = Metrics(served)
    served.features.observe(metrics)
    with caplog.at_level(logging.INFO, "agent_utilities.wire"):
        async with session(served) as client:
            await capabilities_of(served).switching.router.wait_until_ready()
            await listed(client, q=WORDS)
            await listed(client, q=WORDS)
            await switched(client, "enable", "mail")
    assert [(each.by, each.on, each.off) for each in heard.switches] == [
        ("words", ("versioning",), ()),
        ("tool", ("mail",), ("versioning",)),
    ]
    (route,) = heard.routes
    assert (route.outcome, route.nearest[0][0], len(route.nearest)) == ("activated", "versioning", 3)
    text = metrics.text(tells_denied=False).decode()
    assert 'mcp_capability_switches_total{by="words",change="on"} 1.0' in text
    assert 'mcp_capability_routes_total{outcome="activated"} 1.0' in text
    assert "mcp_capabilities_known 6.0" in text
    lines = [line for line in caplog.messages if line.startswith(("routed", "capabilities"))]
    assert lines[1] == 'capabilities by=words on="versioning"'
    assert not any("please show" in line for line in lines)


async def test_a_pasted_log_switches_nothing_on_and_the_request_beside_it_does(served: AgentServer) -> None:
    log = "2026-03-02 10:11:12 ERROR git log: commit my changes to git\n2026-03-02 10:11:13 INFO show the git log"
    heard = Heard()
    served.features.observe(heard)
    async with session(served) as client:
        await capabilities_of(served).switching.router.wait_until_ready()
        await listed(client, q=log)
        assert heard.switches == []
        await listed(client, q=f"Why does this fail?\n\n{log}\n\nPlease send an email to a colleague.")
    assert [each.on for each in heard.switches] == [("mail",)]


async def test_the_span_of_a_request_has_what_it_switched(served: AgentServer) -> None:
    exporter = span_exporter()
    async with session(served) as client:
        await switched(client, "enable", "mail")
    spans = exporter.get_finished_spans()
    events = {event.name: dict(event.attributes or {}) for span in spans for event in span.events}
    assert events["agent_utilities.capabilities"]["agent_utilities.on"] == "mail"


async def test_health_counts_and_names_nothing(served: AgentServer) -> None:
    async with session(served) as client:
        await switched(client, "enable", "mail")
        assert served.health()["capabilities"] == {"known": 6, "unavailable": 0}


def test_explain_says_what_the_words_lead_to_and_why_nothing_came() -> None:
    told = {
        "active": ["git"],
        "route": {
            "scores": [["web", 0.2], ["git", 0.1]],
            "threshold": 0.275,
            "margin": 0.005,
            "cause": "web is nearest at 0.200, under the threshold of 0.275",
        },
    }
    assert _capability_lines(told) == [
        "capabilities on: git",
        "words lead to: web 0.200, git 0.100 (gate: 0.275, and 0.005 ahead of the second): web is nearest at 0.200, "
        "under the threshold of 0.275",
    ]
