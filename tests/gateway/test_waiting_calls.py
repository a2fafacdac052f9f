"""Calls that wait for their callers' answers: nobody else's, not for ever, and not too many."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from fastmcp.server.auth import StaticTokenVerifier
from mcp_types import CLIENT_CAPABILITIES_META_KEY

from tests.gateway.gateways import LONG_S, Served, served
from tests.gateway.upstreams.supervised import script
from tests.wire.http_raw import RawHttp
from tests.wire.wires import Answer, ModernCaller

pytestmark = [pytest.mark.outside]

OFFERED = {CLIENT_CAPABILITIES_META_KEY: {"elicitation": {}, "sampling": {}, "roots": {}}}
ACCEPT = {"elicit": {"action": "accept", "content": {"name": "Ada"}}}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    tokens = {name: {"client_id": name, "scopes": []} for name in ("ada", "bob")}
    upstreams = [script(name, "asking_server.py") for name in ("old", "older")]
    with served(*upstreams, auth=StaticTokenVerifier(tokens=tokens)) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_other_call(gateway: Served) -> None:
    """Begin with no call under way: a question that may be of two callers' calls is put to neither."""
    asyncio.run_coroutine_threadsafe(_none_under_way(gateway), gateway.loop).result(LONG_S)


class Asked:
    """A caller of 2026-07-28 who answers by hand."""

    def __init__(self, gateway: Served, http: RawHttp, token: str = "ada") -> None:
        self._caller = ModernCaller(http, "", (("authorization", f"Bearer {token}"),))
        self.gateway = gateway

    def call(self, name: str = "old_elicit", arguments: dict[str, Any] | None = None, **more: Any) -> Answer:
        params = {"name": name, "arguments": arguments or {"message": "Who?"}, "_meta": OFFERED, **more}
        return self._caller.ask("tools/call", params)

    def answer(self, asked: Answer, answers: dict[str, Any] | None = None, **more: Any) -> Answer:
        """Answer all that was asked alike."""
        keys = asked.result["inputRequests"]
        given = answers or {key: ACCEPT["elicit"] for key in keys}
        return self.call(inputResponses=given, requestState=asked.result["requestState"], **more)


@pytest.fixture
def ada(gateway: Served) -> Iterator[Asked]:
    with closing(RawHttp(gateway.url)) as http:
        yield Asked(gateway, http)


@pytest.fixture
def bob(gateway: Served) -> Iterator[Asked]:
    with closing(RawHttp(gateway.url)) as http:
        yield Asked(gateway, http, "bob")


def done(answer: Answer) -> Any:
    return json.loads(answer.result["content"][0]["text"])


def n_waiting(gateway: Served) -> int:
    return len(gateway.provider.waiting)


class TestAState:
    def test_is_answered_once(self, ada: Asked) -> None:
        asked = ada.call()
        assert done(ada.answer(asked)) == ACCEPT
        assert ada.answer(asked).message["error"]["code"] == -32602

    def test_is_nobody_elses(self, ada: Asked, bob: Asked) -> None:
        asked = ada.call()
        assert bob.answer(asked).message["error"]["code"] == -32602
        assert done(ada.answer(asked)) == ACCEPT

    def test_is_of_one_call(self, ada: Asked) -> None:
        asked = ada.call()
        assert ada.answer(asked, arguments={"message": "Another"}).message["error"]["code"] == -32602
        assert ada.answer(asked, name="old_sample").message["error"]["code"] == -32602
        assert done(ada.answer(asked)) == ACCEPT

    def test_that_was_made_up_is_refused(self, ada: Asked) -> None:
        for state in ("w", "u", "wAAAA", "", "v1.AAAA"):
            assert ada.call(requestState=state, inputResponses={}).message["error"]["code"] == -32602

    def test_shows_nothing_of_what_is_kept(self, ada: Asked) -> None:
        asked = ada.call()
        assert asked.result["requestState"].startswith("v1.")
        ada.answer(asked)


class TestAnAnswer:
    def test_that_is_missing_is_asked_for_again(self, ada: Asked) -> None:
        again = ada.answer(ada.call(), {"other": ACCEPT["elicit"]})
        assert done(ada.answer(again)) == ACCEPT

    def test_that_is_none_ends_the_call(self, gateway: Served, ada: Asked) -> None:
        asked = ada.call()
        key = next(iter(asked.result["inputRequests"]))
        refused = ada.answer(asked, {key: {"roots": []}})
        assert refused.message["error"]["code"] == -32602
        assert ada.answer(asked).message["error"]["code"] == -32602
        assert n_waiting(gateway) == 0


class TestSeveralCallsOfOneCaller:
    def test_are_each_asked(self, ada: Asked, gateway: Served) -> None:
        asked = ada.call()
        with closing(RawHttp(gateway.url)) as http:
            same = Asked(gateway, http)
            other = same.call()
            assert done(same.answer(other)) == ACCEPT
        assert done(ada.answer(asked)) == ACCEPT

    def test_without_a_token_may_be_of_several_callers_and_nobody_is_asked(self) -> None:
        with served(script("old", "asking_server.py")) as gateway, closing(RawHttp(gateway.url)) as http:
            one = ModernCaller(http, "", ())
            params = {"name": "old_elicit", "arguments": {"message": "Who?"}, "_meta": OFFERED}
            assert one.ask("tools/call", params).result["inputRequests"]
            assert "refused" in done(one.ask("tools/call", params))


class TestBounds:
    def test_on_one_callers_waiting_calls_are_told_to_the_upstream(self, gateway: Served, ada: Asked) -> None:
        waiting = gateway.provider.waiting
        asked = ada.call()
        waiting.n_of_caller, before = 1, waiting.n_of_caller
        try:
            refused = done(ada.call("older_elicit"))
        finally:
            waiting.n_of_caller = before
        assert "too many calls wait" in refused["refused"]
        assert done(ada.answer(asked)) == ACCEPT

    def test_hold_up_no_call_that_asks_nothing(self, ada: Asked, bob: Asked) -> None:
        asked = ada.call()
        assert "_meta" not in done(bob.call("old_meta"))
        assert done(ada.answer(asked)) == ACCEPT

    def test_let_nobody_be_asked_what_may_be_anothers(self, ada: Asked, bob: Asked) -> None:
        asked = ada.call()
        assert "refused" in done(bob.call())
        assert done(ada.answer(asked)) == ACCEPT

    def test_on_time_end_the_call_at_its_upstream_too(self, gateway: Served, ada: Asked) -> None:
        waiting = gateway.provider.waiting
        waiting.wait_s, before = 0.05, waiting.wait_s
        try:
            asked = ada.call()
            over = asyncio.run_coroutine_threadsafe(_none_under_way(gateway), gateway.loop)
            over.result(LONG_S)
        finally:
            waiting.wait_s = before
        assert ada.answer(asked).message["error"]["code"] == -32602


async def _none_under_way(gateway: Served) -> None:
    """Return once no call waits, and none is under way."""
    waiting = gateway.provider.waiting
    while len(waiting) or waiting.tasks:
        await asyncio.wait(list(waiting.tasks) or [asyncio.ensure_future(asyncio.sleep(0))])
