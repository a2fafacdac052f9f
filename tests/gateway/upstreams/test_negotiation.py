"""Both eras are found, whatever a server makes of a question that it does not know."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mcp.client import session
from mcp_types.version import LATEST_MODERN_VERSION

from tests.every import every
from tests.gateway.upstreams.snapshots import in_memory
from tests.gateway.upstreams.supervised import QUICK, running, script

pytestmark = [pytest.mark.outside, pytest.mark.anyio, pytest.mark.timeout(120)]


@every("what", ["silent", "exits", "invalid", "empty"])
async def test_a_server_of_the_older_era_is_reached(what):
    async with running(script("odd", "odd_server.py", what), policy=replace(QUICK, probe_s=0.1)) as gateway:
        assert await gateway.call("odd", "hello") == "hello"
        await gateway.seen("odd")
        assert gateway["odd"].snapshot.protocol_version == "2025-06-18"
        assert gateway["odd"].counts.n_failures == 0


async def test_one_that_exits_when_probed_is_not_probed_again():
    store, config = in_memory(), script("odd", "odd_server.py", "exits")
    async with running(config, store=store) as gateway:
        await gateway.at_rest("odd")
    async with running(config, store=store) as gateway:
        assert await gateway.call("odd", "hello") == "hello"
        assert gateway["odd"].counts.n_starts == 1


async def test_a_server_of_the_newer_era_is_spoken_to_in_it():
    async with running(script("plain", "plain_server.py")) as gateway:
        assert await gateway.call("plain", "echo", text="hello") == "hello"
        await gateway.seen("plain")
        assert gateway["plain"].snapshot.protocol_version == LATEST_MODERN_VERSION
        assert gateway["plain"].snapshot.server_info["name"] == "plain"


async def test_a_server_of_the_newer_era_that_leaves_out_what_its_results_are_is_understood():
    async with running(script("odd", "odd_server.py", "bare")) as gateway:
        assert await gateway.call("odd", "hello") == "hello"
        await gateway.seen("odd")
        assert [tool["name"] for tool in gateway["odd"].snapshot.tools] == ["hello"]
        assert gateway["odd"].snapshot.protocol_version == LATEST_MODERN_VERSION


@every("what", ["late", "later"])
async def test_a_handshake_that_is_refused_before_the_probe_is_answered_ends_nothing(what, monkeypatch):
    if what == "later":
        monkeypatch.setattr(session, "DISCOVER_TIMEOUT_SECONDS", 0.2)
    async with running(script("odd", "odd_server.py", what), policy=replace(QUICK, probe_s=0.1)) as gateway:
        assert await gateway.call("odd", "hello") == "hello"
        await gateway.seen("odd")
        assert gateway["odd"].snapshot.protocol_version == LATEST_MODERN_VERSION
        assert gateway["odd"].counts.n_failures == 0


async def test_a_server_of_both_eras_that_starts_slowly_is_spoken_to_as_it_was_last_agreed():
    async with running(script("odd", "odd_server.py", "slow"), policy=replace(QUICK, probe_s=0.1)) as gateway:
        assert await gateway.call("odd", "hello") == "hello"
        await gateway.seen("odd")
        assert [tool["name"] for tool in gateway["odd"].snapshot.tools] == ["hello"]
        assert gateway["odd"].snapshot.protocol_version == "2025-06-18"


async def test_a_server_that_has_become_one_of_the_older_era_is_still_reached():
    store, config = in_memory(), script("odd", "odd_server.py", "invalid")
    async with running(config, store=store) as gateway:
        await gateway.at_rest("odd")
        known = gateway["odd"].snapshot
    store.save(known.model_copy(update={"protocol_version": LATEST_MODERN_VERSION}))
    async with running(config, store=store) as gateway:
        assert await gateway.call("odd", "hello") == "hello"
