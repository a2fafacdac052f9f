"""`python3 tasks.py fleet`: a gateway that is killed costs what was under way there, and one that is rolled nothing."""

from __future__ import annotations

import pytest

from tests.fleet.processes.show import show


@pytest.mark.outside
@pytest.mark.nightly
def test_clients_lose_what_was_under_way_at_the_killed_gateway_and_sessions_go_on():
    clients = show()
    assert [client for client in clients if client.saw_wrong] == []
    assert all(client.seen["answers"] for client in clients)
    assert all(client.seen["lost"] <= 1 for client in clients)
    assert sum(client.seen["stopping"] for client in clients) == 0
    assert len({client.first_lists for client in clients if client.era == "2025-11-25"}) == 2
