"""`RedisState` against a real Redis: no write is lost, nobody waits for long, a stranger's entries are none."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from contextlib import asynccontextmanager

import pytest

from agent_utilities.state.redis_state import WAIT_S, RedisState, StateError
from tests.every import every
from tests.fleet.processes.services import redis_server

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

KEY = bytes(range(32))
LATE_S = 0.5
"""What a busy machine may add to a wait before a test fails."""
PATIENT_S = 60.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture(autouse=True)
def _empty(server):
    server.flush()


class Patient(RedisState):
    """Waits for Redis however busy this machine is, for its connections too."""

    wait_s = PATIENT_S


@asynccontextmanager
async def client_of(server, url="", key=KEY):
    """Give a client that is patient; tests of faults have it wait as requests do."""
    state = Patient(url or server.url(), "agent-utilities", "one", key)
    try:
        yield state
    finally:
        await state.close()


@pytest.fixture
async def state(server):
    async with client_of(server) as made:
        yield made


async def fails(state: RedisState, wait_s: float = WAIT_S) -> tuple[str, float]:
    """Return why a question gets no answer, and after how many seconds that is said."""
    state.wait_s, begun = wait_s, time.monotonic()
    with pytest.raises(StateError) as raised:
        await state.swap("set", "a", 0, {"v": 1}, 60)
    assert str(raised.value) == state.cause
    return state.cause, time.monotonic() - begun


async def comes_back(state: RedisState) -> None:
    """Ask until there is an answer, as requests do."""
    state.wait_s = PATIENT_S
    async with asyncio.timeout(PATIENT_S):
        while True:
            try:
                await state.swap("set", "back", 0, {"v": 1}, 60)
            except StateError:
                await asyncio.sleep(0.02)
            else:
                break
    assert state.cause == ""


@every(
    ("url", "told"),
    [
        ("redis://u:12/SECRET@h", "can't be told apart"),
        ("redis://u:12#SECRET@h", "can't be told apart"),
        ("redis://u:12?SECRET@h", "can't be told apart"),
        ("redis://u:SECRET#@h", "Port could not be read"),
        ("redis://h/SECRET", "no number$"),
        ("redis://u:p@h/zero", "no number: '/zero'$"),
        ("redis://h?SECRET=1", "that redis-py does not know"),
        ("memcached://u:SECRET@h", "must specify one of"),
    ],
)
def test_a_url_that_is_none_is_refused_without_what_may_be_a_password(url, told):
    with pytest.raises(ValueError, match=told) as refused:
        RedisState(url, "agent-utilities", "one", KEY)
    assert "SECRET" not in str(refused.value)


@every("url", ["redis://h", "redis://h:1/", "redis://u:p@h/7", "unix:///run/a@b.sock", "redis://h?password=a@b"])
def test_a_url_of_redis_is_taken(url):
    assert RedisState(url, "agent-utilities", "one", KEY).cause == ""


class TestValues:
    async def test_what_was_never_kept_is_nothing_at_version_0(self, state):
        assert await state.load("set", "a") == ({}, 0)

    async def test_are_loaded_as_they_were_swapped_with_a_version_one_higher(self, state):
        assert await state.swap("set", "a", 0, {"v": 1, "tools": ["é", "b"]}, 60) is None
        assert await state.load("set", "a") == ({"v": 1, "tools": ["é", "b"]}, 1)

    async def test_who_comes_second_is_told_what_there_is(self, state):
        await state.swap("set", "a", 0, {"by": "first"}, 60)
        assert await state.swap("set", "a", 0, {"by": "second"}, 60) == ({"by": "first"}, 1)
        assert await state.load("set", "a") == ({"by": "first"}, 1)

    async def test_of_a_later_version_are_kept_where_redis_has_lost_what_it_had(self, state, server):
        for version in range(3):
            await state.swap("set", "a", version, {"by": "first"}, 60)
        server.flush()
        assert await state.swap("set", "a", 3, {"by": "second"}, 60) is None
        assert await state.load("set", "a") == ({"by": "second"}, 4)

    async def test_fifty_increments_at_once_by_two_clients_come_to_fifty(self, server):
        async def add(state):
            values, version = await state.load("count", "a")
            while (found := await state.swap("count", "a", version, {"n": values.get("n", 0) + 1}, 60)) is not None:
                values, version = found

        async with client_of(server) as one, client_of(server) as two:
            await asyncio.gather(*(add(state) for state in [one, two] * 25))
            assert await one.load("count", "a") == ({"n": 50}, 50)

    async def test_go_when_their_time_is_over_and_a_swap_gives_them_time_anew(self, state, server):
        await state.swap("set", "a", 0, {"v": 1}, 10)
        assert 5 < server.admin.ttl(state.name("set", "a")) <= 10
        await state.swap("set", "a", 1, {"v": 1}, 60)
        assert 50 < server.admin.ttl(state.name("set", "a")) <= 60

    async def test_of_servers_and_kinds_are_apart(self, state):
        await state.swap("set", "a", 0, {"v": 1}, 60)
        assert await state.load("trail", "a") == ({}, 0)
        assert state.name("set", "a") == "agent-utilities:one:set:{a}"


HOSTILE = {
    "what nobody sealed": b'{"v": 1}',
    "no JSON": b"{",
    "a list": b'[{"tools": ["all"]}]',
    "a number": b"7",
    "no text": b"\xff\xfe\x00",
    "deep": b"[" * 100_000,
    "ten megabytes": json.dumps({"a": "x" * 10_000_000}).encode(),
}


class TestStrangers:
    """Who may write to Redis puts there what they like."""

    @every("kind", HOSTILE)
    async def test_values_that_are_none_count_as_nothing_and_are_swapped_away(self, state, server, kind):
        server.admin.delete(state.name("set", "a"))
        server.admin.hset(state.name("set", "a"), mapping={"version": 3, "values": HOSTILE[kind]})
        assert await state.load("set", "a") == ({}, 3)
        assert await state.swap("set", "a", 2, {"v": 1}, 60) == ({}, 3)
        assert await state.swap("set", "a", 3, {"v": 1}, 60) is None
        assert await state.load("set", "a") == ({"v": 1}, 4)

    @every("version", ["x", "-1", "1.5", "1e400", "nan", "9" * 400, ""])
    async def test_a_version_that_is_no_number_counts_as_0_and_is_swapped_away(self, state, server, version):
        server.admin.delete(state.name("set", "a"))
        server.admin.hset(state.name("set", "a"), mapping={"version": version})
        assert await state.load("set", "a") == ({}, 0)
        assert await state.swap("set", "a", 0, {"v": 2}, 60) is None
        assert await state.load("set", "a") == ({"v": 2}, 1)

    async def test_a_version_is_one_up_to_fifteen_digits_to_who_reads_and_to_who_swaps(self, state, server):
        for n_digits, number in ((15, 10**15 - 1), (16, 0)):
            server.admin.delete(state.name("set", "a"))
            server.admin.hset(state.name("set", "a"), mapping={"version": "9" * n_digits})
            assert await state.load("set", "a") == ({}, number)
            found = await state.swap("set", "a", 7, {"v": 1}, 60)
            assert found == (({}, number) if number else None)

    async def test_one_persons_values_put_in_anothers_place_count_as_nothing(self, state, server):
        await state.swap("set", "a", 0, {"v": 1}, 60)
        server.admin.copy(state.name("set", "a"), state.name("set", "b"))
        server.admin.copy(state.name("set", "a"), state.name("trail", "a"))
        assert [await state.load(*name) for name in (("set", "b"), ("trail", "a"))] == [({}, 1)] * 2

    async def test_a_key_of_another_type_is_an_error_that_is_said(self, state, server):
        server.admin.set(state.name("set", "a"), "text")
        with pytest.raises(StateError, match="redis failed: ResponseError"):
            await state.load("set", "a")

    def sealed_by(self, key: bytes = KEY, name: str = "snapshot:a") -> bytes:
        return RedisState("redis://127.0.0.1:9", "p", "s", key).sealed(name, b"what models read")

    async def test_what_is_sealed_opens_under_its_name(self, state):
        sealed = self.sealed_by()
        assert b"models" not in sealed
        assert state.opened("snapshot:a", sealed) == b"what models read"

    async def test_the_same_content_is_sealed_differently_each_time(self):
        assert self.sealed_by() != self.sealed_by()

    async def test_what_is_not_sealed_so_does_not_open_and_that_is_logged_once(self, state, caplog):
        whole = self.sealed_by()
        changed = [bytes([*whole[:at], whole[at] ^ 1, *whole[at + 1 :]]) for at in range(len(whole))]
        for sealed in [self.sealed_by(name="snapshot:b"), self.sealed_by(os.urandom(32)), *changed, whole[:12], b"x"]:
            assert state.opened("snapshot:a", sealed) is None
        assert [record.levelno for record in caplog.records] == [logging.WARNING]

    async def test_what_is_not_there_does_not_open_and_nothing_is_logged(self, state, caplog):
        assert (state.opened("snapshot:a", None), state.opened("snapshot:a", b"")) == (None, None)
        assert caplog.records == []

    async def test_a_derived_secret_is_equal_on_replicas_and_for_no_two_uses(self, state, server):
        async with client_of(server) as replica, client_of(server, key=os.urandom(32)) as other:
            assert state.derived("login") == replica.derived("login")
            assert len({state.derived("login"), state.derived("seal"), other.derived("login"), KEY}) == 4


class TestFaults:
    async def test_redis_gone_is_said_within_a_quarter_second_and_it_comes_back(self, state, server):
        await state.swap("set", "a", 0, {"v": 1}, 60)
        server.kill()
        try:
            cause, seconds = await fails(state)
        finally:
            server.start()
        assert cause.startswith("redis failed: ConnectionError") or "did not answer" in cause
        assert seconds < WAIT_S + LATE_S
        await comes_back(state)

    @every("error", [RuntimeError("the handler is closed"), TypeError("'NoneType'"), AttributeError("'NoneType'")])
    async def test_whatever_redis_py_fails_by_is_redis_gone(self, state, error):
        async def question():
            raise error

        with pytest.raises(StateError, match=f"redis failed: {type(error).__name__}"):
            await state.ask(question())
        await comes_back(state)

    async def test_any_question_is_refused_while_redis_is_left_alone(self, state, server):
        server.kill()
        try:
            await fails(state)
            for question in (state.redis.get("a"), asyncio.get_running_loop().create_future()):
                with pytest.raises(StateError, match=state.cause):
                    await state.ask(question)
        finally:
            server.start()

    async def test_redis_halted_is_said_within_a_quarter_second_then_at_once_and_it_comes_back(self, state, server):
        await state.swap("set", "a", 0, {"v": 1}, 60)
        server.pause()
        try:
            cause, seconds = await fails(state)
            _, again_seconds = await fails(state)
        finally:
            server.go_on()
        assert cause == "redis did not answer within 0.25 s"
        assert WAIT_S - 0.02 < seconds < WAIT_S + LATE_S
        assert again_seconds < 0.1
        await comes_back(state)

    async def test_redis_that_takes_two_seconds_is_not_waited_for(self, state, server):
        server.slow(2)
        cause, seconds = await fails(state)
        assert (cause, seconds < WAIT_S + LATE_S) == ("redis did not answer within 0.25 s", True)
        await comes_back(state)

    async def test_redis_full_is_said_and_it_comes_back_once_there_is_room(self, state, server):
        server.fill()
        try:
            cause, _ = await fails(state, PATIENT_S)
        finally:
            server.make_room()
        assert cause == "redis failed: OutOfMemoryError"
        await comes_back(state)

    async def test_redis_full_is_logged_once_though_it_answers_in_between(self, state, server, caplog, monkeypatch):
        monkeypatch.setattr("agent_utilities.state.redis_state._REST_S", 0.0)
        caplog.set_level(logging.INFO, "agent_utilities.state")
        server.fill()
        try:
            for _ in range(5):
                await fails(state, PATIENT_S)
                assert await state.load("set", "a") == ({}, 0)
        finally:
            server.make_room()
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]

    async def test_an_answer_to_an_earlier_question_does_not_hide_why_later_ones_fail(self, state, server):
        server.admin.set("text", "no list")
        asked = asyncio.create_task(state.ask(state.redis.blpop("list"), within_s=PATIENT_S))
        await asyncio.sleep(0)
        with pytest.raises(StateError):
            await state.ask(state.redis.llen("text"))
        server.admin.lpush("list", "an answer")
        assert await asked == (b"list", b"an answer")
        with pytest.raises(StateError, match="ResponseError"):
            await state.load("set", "a")

    async def test_redis_flushed_is_no_fault(self, state, server):
        await state.swap("set", "a", 0, {"v": 1}, 60)
        server.flush()
        assert (await state.load("set", "a"), state.cause) == (({}, 0), "")
        assert await state.swap("set", "a", 0, {"v": 1}, 60) is None

    async def test_an_answer_that_comes_too_late_is_given_to_nobody_else(self, state, server):
        for one in "abc":
            await state.swap("set", one, 0, {"is": one}, 60)
        server.pause()
        state.wait_s = WAIT_S
        try:
            asked = [asyncio.create_task(state.load("set", one)) for one in "abc" * 5]
            assert all(isinstance(each, StateError) for each in await asyncio.gather(*asked, return_exceptions=True))
        finally:
            server.go_on()
        await comes_back(state)
        loaded = await asyncio.gather(*(state.load("set", one) for one in "abc" * 5))
        assert [values["is"] for values, _ in loaded] == list("abc" * 5)

    async def test_an_answer_that_is_there_when_a_blocked_loop_goes_on_is_taken(self, state, server):
        await state.swap("set", "a", 0, {"v": 1}, 60)
        state.wait_s = WAIT_S
        server.pause()
        asked = asyncio.create_task(state.load("set", "a"))
        for _ in range(5):
            await asyncio.sleep(0)  # the question is sent
        server.go_on()
        time.sleep(2 * WAIT_S)  # noqa: ASYNC251 - as a machine does that has too much to do
        assert await asked == ({"v": 1}, 1)

    async def test_a_fault_and_its_end_are_logged_once(self, state, server, caplog):
        caplog.set_level(logging.INFO, "agent_utilities.state")
        server.pause()
        try:
            for _ in range(5):
                await fails(state)
        finally:
            server.go_on()
        await comes_back(state)
        assert [record.message for record in caplog.records] == [
            "redis did not answer within 0.25 s; requests go on with this process's state",
            "redis answers again",
        ]


class TestLogins:
    async def test_a_wrong_password_is_an_error_that_shows_none(self, tmp_path):
        with redis_server(tmp_path, "secret") as server:
            async with client_of(server, server.url(":wrong")) as state:
                cause, _ = await fails(state, PATIENT_S)
                assert cause == "redis failed: AuthenticationError"
            async with client_of(server) as state:
                assert await state.load("set", "a") == ({}, 0)

    async def test_a_user_who_may_use_our_keys_alone_is_enough(self, tmp_path):
        rule = "fleet on >p%40ss ~agent-utilities:* -@all +@hash +@scripting +expire +del +@connection"
        with redis_server(tmp_path, "secret", [rule]) as server:
            async with client_of(server, server.url("fleet:p%2540ss")) as state:
                assert await state.swap("set", "a", 0, {"v": 1}, 60) is None
                assert await state.load("set", "a") == ({"v": 1}, 1)

    async def test_tls_is_taken_with_the_certificate_that_the_url_names_and_with_no_other(self, tmp_path):
        with redis_server(tmp_path, "secret", is_tls=True) as server:
            async with client_of(server) as state:
                assert await state.swap("set", "a", 0, {"v": 1}, 60) is None
            async with client_of(server, server.url().partition("?")[0]) as state:
                cause, _ = await fails(state, PATIENT_S)
                assert cause == "redis failed: ConnectionError"
