"""Whole results are their owners' alone, within their bounds, for half an hour; here, or in a real Redis."""

from __future__ import annotations

import asyncio
import json
import random
import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from hashlib import blake2b
from itertools import chain
from pathlib import Path

import psutil
import pytest

from agent_utilities.results.feature import owner_of
from agent_utilities.results.kept import ALL_BYTES, EACH_BYTES, LIFE_S, Entry, Kept, Owner
from agent_utilities.seam.caller import NOBODY, Caller
from agent_utilities.seam.session import Session
from agent_utilities.state.redis_state import RedisState
from tests.every import every
from tests.fleet.processes.replicas import Shared, shared_redis, until

pytestmark = pytest.mark.anyio

KEY = bytes(range(32))
MIB = 1 << 20
PIECE = 512 << 10
ANN, BOB = Owner("subject", ("https://issuer", "ann")), Owner("subject", ("https://issuer", "bob"))


class Clock:
    """A time that passes when it is told to."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> Kept:
    return Kept(None, clock)


async def put(kept: Kept, owner: Owner = ANN, content: bytes = b"[1, 2]", tool: str = "list_issues") -> str:
    """Keep a result that there is room for."""
    handle = await kept.put(owner, tool, content)
    assert handle is not None
    return handle


async def left(kept: Kept, owner: Owner, handles: list[str]) -> list[bool]:
    """Return which of an owner's results are still there; those that are become the last read, in this order."""
    return [await kept.get(handle, owner) is not None for handle in handles]


class TestOwner:
    @every(
        ("caller", "session", "expected"),
        [
            (Caller("https://issuer", "ann", "desk", token="t1"), Session("s1"), ANN),
            (Caller("https://issuer", "ann", "phone", token="t2"), None, ANN),
            (Caller("", "ann"), None, Owner("subject", ("", "ann"))),
            (Caller("https://issuer", "", "desk", token="t1"), Session("s1"), Owner("session", ("s1",))),
            (NOBODY, Session("s1"), Owner("session", ("s1",))),
            (None, Session("s1"), Owner("session", ("s1",))),
            (NOBODY, None, Owner("handle")),
            (None, None, Owner("handle")),
        ],
    )
    def test_is_the_subject_else_the_session_else_whoever_has_the_handle(self, caller, session, expected):
        assert owner_of(caller, session) == expected

    def test_by_a_token_of_no_subject_is_not_that_of_another_token_of_the_same_client(self):
        one, other = (owner_of(Caller("https://issuer", "", "desk", token=token), None) for token in ("t1", "t2"))
        assert (one.by, one == other) == ("token", False)

    def test_holds_no_token(self):
        assert "t1-secret" not in repr(owner_of(Caller("", "", "desk", token="t1-secret"), None))

    def test_of_a_subject_that_is_called_as_a_session_is_another(self):
        assert owner_of(Caller("", "s1"), None) != owner_of(None, Session("s1"))


class TestHandle:
    async def test_is_128_random_bits_in_small_letters_that_a_host_in_a_url_keeps(self, kept):
        handles = {await put(kept) for _ in range(500)}
        assert len(handles) == 500
        assert all(re.fullmatch("r_[a-z2-7]{26}", handle) for handle in handles)

    async def test_of_the_same_content_put_twice_is_another_and_both_are_read(self, kept):
        one, other = await put(kept), await put(kept)
        assert one != other
        assert await left(kept, ANN, [one, other]) == [True, True]


SIZES = [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 7]
TEXTS = [b"", b"\n", b"\n\n[]", b"\x00\xff\n", "é\n".encode()]


class TestHere:
    async def test_a_result_is_read_as_it_was_put(self, kept):
        assert await kept.get(await put(kept), ANN) == Entry(b"[1, 2]", "list_issues")

    @every("content", [random.Random(0).randbytes(n) for n in SIZES] + TEXTS, ids=lambda each: f"{len(each)}")
    async def test_any_bytes_are_read_as_they_were_put(self, kept, content):
        entry = await kept.get(await put(kept, content=content), ANN)
        assert entry is not None
        assert entry.content == content

    @every(
        ("altered", "owner"),
        [
            (lambda handle: handle, BOB),
            (lambda handle: handle, Owner("session", ANN.names)),
            (lambda handle: handle, Owner("handle")),
            (lambda handle: handle[:-1], ANN),
            (lambda handle: handle[:-1] + ("a" if handle[-1] != "a" else "e"), ANN),
            (lambda handle: handle.upper(), ANN),
            (lambda handle: f"{handle} ", ANN),
            (lambda handle: "", ANN),
            (lambda handle: "r_\ud800", ANN),
            (lambda handle: "r_" + "a" * MIB, ANN),
        ],
        ids=map(str, range(10)),
    )
    async def test_anothers_result_and_a_handle_that_never_was_are_none(self, kept, altered, owner):
        assert await kept.get(altered(await put(kept)), owner) is None

    async def test_two_sessions_have_each_their_own(self, kept):
        one, other = (owner_of(None, Session()) for _ in range(2))
        handles = [await put(kept, one), await put(kept, other)]
        assert (await left(kept, one, handles), await left(kept, other, handles)) == ([True, False], [False, True])

    async def test_whoever_has_the_handle_reads_what_nobody_in_particular_called_for(self, kept):
        handle = await put(kept, owner_of(NOBODY, None))
        assert await left(kept, owner_of(None, None), [handle]) == [True]

    async def test_a_result_goes_half_an_hour_after_it_was_put(self, kept, clock):
        handles = [await put(kept), await put(kept)]
        clock.now_s += LIFE_S - 1
        assert await left(kept, ANN, handles[:1]) == [True]
        clock.now_s += 1
        assert await left(kept, ANN, handles[1:]) == [False]

    async def test_a_result_goes_half_an_hour_after_it_was_last_read(self, kept, clock):
        handle = await put(kept)
        for _ in range(3):
            clock.now_s += LIFE_S - 1
            assert await left(kept, ANN, [handle]) == [True]
        clock.now_s += LIFE_S
        assert await left(kept, ANN, [handle]) == [False]

    async def test_what_expired_takes_no_memory_though_nobody_asks_for_it(self, kept, clock):
        await put(kept, content=bytes(MIB))
        assert kept.n_bytes >= MIB
        clock.now_s += LIFE_S
        assert kept.n_bytes == 0

    async def test_what_expired_goes_when_another_is_put(self, kept, clock):
        await put(kept, BOB)
        clock.now_s += LIFE_S
        handle = await put(kept)
        assert list(kept._held) == [(ANN, handle)]

    async def test_what_expired_takes_no_room_of_what_did_not(self, kept, clock):
        for content in (bytes(12 * MIB), bytes(3 * MIB)):
            first = await put(kept, content=content)
            clock.now_s += 1
        clock.now_s += LIFE_S - 2
        handles = [first, *[await put(kept, content=bytes(3 * MIB)) for _ in range(4)]]
        assert await left(kept, ANN, handles) == [True] * 5

    async def test_what_is_over_an_owners_bound_evicts_their_least_recently_read_alone(self, kept):
        bobs = await put(kept, BOB)
        handles = [await put(kept, content=bytes(4 * MIB - 100)) for _ in range(4)]
        assert await left(kept, ANN, handles[:1]) == [True]
        handles.append(await put(kept))
        assert await left(kept, ANN, handles) == [True, False, True, True, True]
        assert await left(kept, BOB, [bobs]) == [True]

    async def test_what_is_over_the_bound_of_all_evicts_the_least_recently_read_of_all(self, kept):
        owners = [Owner("session", (str(i),)) for i in range(17)]
        handles = [await put(kept, owner, bytes(4 * MIB - 100)) for owner in owners[:16]]
        assert await left(kept, owners[0], handles[:1]) == [True]
        handles.append(await put(kept, owners[16]))
        found = [await kept.get(handle, owner) is not None for handle, owner in zip(handles, owners, strict=True)]
        assert found == [True, False] + [True] * 15

    async def test_an_owner_who_is_full_evicts_nobody_else_where_all_is_full(self, kept):
        others = [Owner("session", (str(i),)) for i in range(3)]
        handles = [await put(kept, owner, bytes(EACH_BYTES - 100)) for owner in others]
        for _ in range(9):
            await put(kept, content=bytes(EACH_BYTES // 2 - 100))
        assert [await kept.get(*each) is not None for each in zip(handles, others, strict=True)] == [True] * 3

    async def test_anothers_guess_does_not_make_a_result_one_that_was_just_read(self, kept):
        handles = [await put(kept, content=bytes(4 * MIB - 100)) for _ in range(4)]
        assert await left(kept, BOB, handles[:1]) == [False]
        await put(kept)
        assert await left(kept, ANN, handles) == [False, True, True, True]

    async def test_what_is_larger_than_an_owner_may_have_is_not_kept_and_evicts_nothing(self, kept):
        handle = await put(kept)
        assert await kept.put(ANN, "t", bytes(EACH_BYTES)) is None
        assert await kept.put(ANN, "x" * EACH_BYTES, b"") is None
        assert await left(kept, ANN, [handle]) == [True]

    async def test_the_largest_that_an_owner_may_have_is_read_as_it_was_put(self, kept):
        content = random.Random(0).randbytes(EACH_BYTES - 100)
        entry = await kept.get(await put(kept, content=content), ANN)
        assert entry is not None
        assert entry.content == content

    async def test_an_owner_has_512_small_results_at_most(self, kept):
        handles = [await put(kept, content=b"x") for _ in range(513)]
        assert kept.n_bytes == EACH_BYTES
        assert await left(kept, ANN, handles) == [False] + [True] * 512

    async def test_closed_nothing_is_left(self, kept):
        handle = await put(kept)
        kept.close()
        assert (kept.n_bytes, await left(kept, ANN, [handle])) == (0, [False])

    async def test_concurrent_large_results_stay_within_the_bounds(self, kept):
        await asyncio.gather(*(put(kept, content=bytes(3 * MIB)) for _ in range(12)))
        assert kept.n_bytes == 5 * (3 * MIB + 4096)

    @pytest.mark.outside
    async def test_two_hundred_callers_take_the_memory_that_is_bounded_and_a_tenth_at_most(self, kept):
        sizes, rss = random.Random(7), psutil.Process().memory_info
        before = rss().rss
        for i in range(600):
            await put(kept, Owner("subject", ("", str(i % 200))), bytes(int(2 ** sizes.uniform(14, 22))))
        assert 0.9 * ALL_BYTES < kept.n_bytes <= ALL_BYTES
        assert rss().rss - before < 1.1 * ALL_BYTES


@pytest.fixture(scope="module")
def redis_of_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with shared_redis(tmp_path_factory.mktemp("redis")) as shared:
        yield shared


@pytest.fixture
def shared(redis_of_module: Shared) -> Shared:
    redis_of_module.flush()
    return redis_of_module


@asynccontextmanager
async def replica(shared: Shared, key: bytes = KEY, url: str = "", made: type[RedisState] = RedisState):
    """Give the results of one replica, which waits for Redis however busy the machine is."""
    state = made(url or shared.url(), "agent-utilities", "one", key)
    state.wait_s = 60.0
    try:
        yield Kept(state, Clock())
    finally:
        await state.close()


@pytest.fixture
async def replicas(shared: Shared) -> AsyncIterator[tuple[Kept, Kept]]:
    async with replica(shared) as one, replica(shared) as other:
        yield one, other


def in_redis(shared: Shared) -> bytes:
    """Return all that is in Redis, as who may read it sees it."""
    said = list(shared.admin.scan_iter())
    for key in said[:]:
        is_hash = shared.admin.type(key) == b"hash"
        said += chain(*shared.admin.hgetall(key).items()) if is_hash else shared.admin.zrange(key, 0, -1)
    return b" ".join(said)


def results_in(shared: Shared) -> list[str]:
    """Return the keys of results."""
    return [key.decode() for key in shared.admin.scan_iter() if shared.admin.type(key) == b"hash"]


@contextmanager
def gone(shared: Shared) -> Iterator[None]:
    """End Redis at once, with all it holds, for the length of a block."""
    shared.kill()
    try:
        yield
    finally:
        shared.start()


async def is_shared(kept: Kept) -> bool:
    """Keep a result, and forget it where it is kept here; return whether it was not."""
    await put(kept)
    is_here = kept.n_bytes > 0
    kept.close()
    return not is_here


@pytest.mark.outside
class TestShared:
    async def test_a_result_is_read_at_another_replica_as_it_was_put_and_this_process_holds_none(self, replicas):
        one, other = replicas
        handle = await put(one)
        assert await other.get(handle, ANN) == Entry(b"[1, 2]", "list_issues")
        assert (one.n_bytes, other.n_bytes, one.cause) == (0, 0, "")

    @every("content", [random.Random(0).randbytes(n) for n in SIZES] + TEXTS, ids=lambda each: f"{len(each)}")
    async def test_any_bytes_are_read_as_they_were_put(self, replicas, content):
        entry = await replicas[1].get(await put(replicas[0], content=content), ANN)
        assert entry is not None
        assert entry.content == content

    async def test_the_largest_that_an_owner_may_have_is_read_as_it_was_put(self, replicas):
        content = random.Random(0).randbytes(EACH_BYTES - 100)
        entry = await replicas[1].get(await put(replicas[0], content=content), ANN)
        assert entry is not None
        assert entry.content == content

    @every("owner", [BOB, Owner("session", ANN.names), Owner("handle")])
    async def test_anothers_result_is_none(self, replicas, owner):
        assert await replicas[1].get(await put(replicas[0]), owner) is None

    @every("handle", ["", "r_", "r_\ud800", "*", "r_" + "a" * MIB], ids=map(str, range(5)))
    async def test_a_handle_that_never_was_is_none(self, replicas, handle):
        await put(replicas[0])
        assert await replicas[1].get(handle, ANN) is None

    async def test_redis_has_nothing_in_clear_nor_a_hash_that_anybody_can_make(self, replicas, shared):
        handle = await put(replicas[0], content=b"what a tool answered", tool="read_the_mail")
        said = in_redis(shared)
        words = ["answered", "read_the_mail", "issuer", handle, handle[2:], handle[2:10]]
        words.append(blake2b(json.dumps(handle).encode(), digest_size=16).hexdigest())
        assert [word for word in words if word.encode() in said] == []

    async def test_another_key_reads_none(self, replicas, shared):
        handle = await put(replicas[0])
        async with replica(shared, key=bytes(32)) as other:
            assert await other.get(handle, ANN) is None

    async def test_what_is_tampered_with_is_none_and_redis_is_asked_on(self, replicas, shared):
        one, other = replicas
        content = random.Random(0).randbytes(2 * PIECE + 5)
        handle, admin = await put(one, content=content), shared.admin
        [key] = results_in(shared)
        whole = admin.hgetall(key)
        assert sorted(whole) == [b"0", b"1", b"2", b"n"]
        changed = {
            "a changed piece": {**whole, b"1": bytes([whole[b"1"][0] ^ 1]) + whole[b"1"][1:]},
            "no last piece": {name: piece for name, piece in whole.items() if name != b"2"},
            "no first piece": {name: piece for name, piece in whole.items() if name != b"0"},
            "two exchanged": {**whole, b"1": whole[b"0"], b"0": whole[b"1"]},
            "one too many": {**whole, b"3": whole[b"2"]},
            "an empty piece": {**whole, b"2": b""},
            "its size alone": {b"n": whole[b"n"]},
            "no size": {b"0": whole[b"0"]},
        }
        opened = {}
        for how, fields in changed.items():
            admin.delete(key)
            admin.hset(key, mapping=fields)
            opened[how] = await other.get(handle, ANN)
        admin.delete(key)
        admin.set(key, b"a text")
        opened["another type"] = await other.get(handle, ANN)
        assert opened == dict.fromkeys(opened)
        await put(one)
        assert one.cause == ""
        admin.delete(key)
        admin.hset(key, mapping=whole)
        assert (await other.get(handle, ANN)).content == content

    async def test_anothers_result_that_is_copied_to_an_own_name_is_none(self, replicas, shared):
        handles = {ANN: await put(replicas[0]), BOB: await put(replicas[0], BOB, b"bob's")}
        one, other = results_in(shared)
        shared.admin.copy(one, other, replace=True)
        found = [await replicas[1].get(handle, owner) for owner, handle in handles.items()]
        assert sorted(entry is None for entry in found) == [False, True]

    async def test_all_that_is_in_redis_expires_half_an_hour_after_it_was_put_or_last_read(self, replicas, shared):
        handle = await put(replicas[0], content=bytes(PIECE + 1))
        keys = list(shared.admin.scan_iter())
        assert [LIFE_S - 60 < shared.admin.ttl(key) <= LIFE_S for key in keys] == [True] * 2
        for key in keys:
            shared.admin.expire(key, 100)
        await replicas[1].get(handle, BOB)
        assert sorted(shared.admin.ttl(key) > 100 for key in keys) == [False, True]  # the index, which is everybody's
        await replicas[1].get(handle, ANN)
        assert [shared.admin.ttl(key) > 100 for key in keys] == [True, True]

    async def test_what_expired_is_none_and_takes_no_room(self, replicas, shared):
        handles = [await put(replicas[0], content=bytes(4 * MIB - 100)) for _ in range(4)]
        shared.admin.delete(results_in(shared)[0])
        handles.append(await put(replicas[0], content=bytes(3 * MIB)))
        assert sorted(await left(replicas[1], ANN, handles)) == [False] + [True] * 4
        assert shared.admin.zcard("agent-utilities:one:results:{all}") == 4

    async def test_what_is_over_an_owners_bound_evicts_what_no_replica_read_lately_of_theirs_alone(self, replicas):
        one, other = replicas
        bobs = await put(one, BOB)
        handles = [await put(one, content=bytes(4 * MIB - 100)) for _ in range(4)]
        assert await left(other, ANN, handles[:1]) == [True]
        assert await left(other, BOB, handles[1:2]) == [False]
        handles.append(await put(other))
        assert await left(one, ANN, handles) == [True, False, True, True, True]
        assert await left(other, BOB, [bobs]) == [True]

    async def test_what_is_over_the_bound_of_all_evicts_the_least_recently_read_of_all(self, replicas, shared):
        one, other = replicas
        owners = [Owner("session", (str(i),)) for i in range(17)]
        handles = [await put(one, owner, bytes(4 * MIB - 100)) for owner in owners[:16]]
        assert await left(other, owners[0], handles[:1]) == [True]
        handles.append(await put(other, owners[16]))
        found = [await one.get(handle, owner) is not None for handle, owner in zip(handles, owners, strict=True)]
        assert found == [True, False] + [True] * 15
        assert len(results_in(shared)) == 16

    async def test_an_owner_who_is_full_evicts_nobody_else_where_all_is_full(self, replicas):
        others = [Owner("session", (str(i),)) for i in range(3)]
        handles = [await put(replicas[0], owner, bytes(EACH_BYTES - 100)) for owner in others]
        for _ in range(9):
            await put(replicas[1], content=bytes(EACH_BYTES // 2 - 100))
        assert [await replicas[0].get(*each) is not None for each in zip(handles, others, strict=True)] == [True] * 3

    async def test_results_put_at_once_at_two_replicas_stay_within_an_owners_bound(self, replicas, shared):
        await asyncio.gather(*(put(kept, content=bytes(3 * MIB)) for kept in replicas * 6))
        assert sum(int(shared.admin.hget(key, "n")) for key in results_in(shared)) <= EACH_BYTES

    async def test_large_results_are_sealed_and_opened_beside_the_event_loop(self, shared):
        threads = set()

        class Watched(RedisState):
            def sealed(self, name: str, content: bytes) -> bytes:
                threads.add(threading.current_thread())
                return super().sealed(name, content)

            def opened(self, name: str, sealed: bytes | None) -> bytes | None:
                threads.add(threading.current_thread())
                return super().opened(name, sealed)

        async with replica(shared, made=Watched) as kept:
            assert await kept.get(await put(kept, content=bytes(MIB)), ANN) is not None
        assert len(threads) == 2
        assert threading.current_thread() not in threads

    async def test_a_read_that_is_cancelled_on_its_way_leaves_others_their_own_answers(self, replicas):
        kept = replicas[0]
        contents = [random.Random(i).randbytes(3 * MIB) for i in range(3)]
        handles = [await put(kept, content=content) for content in contents]
        for n_turns in range(1, 120, 3):
            reading = asyncio.create_task(kept.get(handles[0], ANN))
            for _ in range(n_turns):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            entry = await kept.get(handles[1 + n_turns % 2], ANN)
            assert entry is not None
            assert entry.content == contents[1 + n_turns % 2]

    async def test_a_login_for_the_prefix_alone_without_dangerous_commands_is_enough(self, tmp_path: Path):
        with shared_redis(tmp_path) as shared:
            rules = {"passwords": ["+secret"], "keys": ["agent-utilities:*"], "commands": ["+@all", "-@dangerous"]}
            shared.admin.acl_setuser("fleet", enabled=True, **rules)
            async with replica(shared, url=shared.url("fleet:secret")) as kept:
                handle = await put(kept)
                assert (kept.cause, await left(kept, ANN, [handle])) == ("", [True])


@pytest.mark.outside
class TestWithoutRedis:
    async def test_results_are_kept_here_and_why_is_told_until_they_are_gone(self, replicas, shared):
        one, other = replicas
        before = await put(one)
        with gone(shared):
            assert await one.get(before, ANN) is None
            here = await put(one)
            assert (await left(one, ANN, [here]), await left(other, ANN, [here])) == ([True], [False])
            assert one.cause.startswith("redis failed: ConnectionError")
        again = Kept(one._shared._state)
        await until(lambda: is_shared(again), 60)
        after = await put(one)
        assert await left(one, ANN, [before, here, after]) == [False, True, True]
        assert one.cause != ""
        one.close()
        assert one.cause == ""

    async def test_a_result_is_kept_here_where_redis_goes_in_the_middle_of_it(self, shared):
        class Cut(RedisState):
            n_asked = 0

            async def ask(self, question, within_s=None):
                self.n_asked += 1
                if self.n_asked == 3:
                    shared.kill()
                return await super().ask(question, within_s)

        content = random.Random(0).randbytes(4 * PIECE)
        async with replica(shared, made=Cut) as kept:
            try:
                handle = await put(kept, content=content)
            finally:
                shared.start()
            assert kept.cause != ""
            entry = await kept.get(handle, ANN)
        assert entry is not None
        assert entry.content == content

    async def test_what_redis_has_no_room_for_is_kept_here_and_others_go_on_asking_it(self, replicas, shared):
        kept = replicas[0]
        shared.fill()
        try:
            handle = await put(kept)
        finally:
            shared.make_room()
        assert (kept.cause, kept._shared._state.cause) == ("redis refused a result: OutOfMemoryError", "")
        assert await left(kept, ANN, [handle]) == [True]
        kept.close()
        await put(kept)
        assert (kept.cause, kept.n_bytes) == ("", 0)

    async def test_redis_that_is_halted_is_not_waited_for_twice(self, replicas, shared):
        one = replicas[0]
        one._shared._state.wait_s = 0.25
        shared.pause()
        try:
            handles = [await put(one) for _ in range(3)]
            assert await left(one, ANN, handles) == [True] * 3
        finally:
            shared.go_on()
        assert one.cause == "redis did not answer within 0.25 s"
        one._shared._state.wait_s = 60.0
        await until(lambda: is_shared(one), 60)

    async def test_redis_that_was_flushed_has_none_and_takes_new_ones(self, replicas, shared):
        before = await put(replicas[0])
        shared.flush()
        after = await put(replicas[0])
        assert await left(replicas[1], ANN, [before, after]) == [False, True]
        assert replicas[0].cause == ""
