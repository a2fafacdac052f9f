"""What lines say of arguments, which callers choose, and of results."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any
from unicodedata import normalize

import pytest

from agent_utilities.access.record.chain import ENOUGH, LONGEST, cut, line, n_bytes_of
from tests.every import every

pytestmark = pytest.mark.anyio
ROOM = 4_000
MIB = 1 << 20


class Recogniser:
    """Takes the word `secret`, and what is named so, for a secret; and counts what it reads."""

    def __init__(self) -> None:
        self.n_texts = self.n_read = self.longest = 0

    def __call__(self, text: str, most: int) -> str:
        self.n_texts += 1
        self.n_read += min(len(text), most)
        self.longest = max(self.longest, most)
        words = normalize("NFKC", text[:most]).split()
        return " ".join(word for word in words if word != "secret" and "secret=" not in word.lower())[:LONGEST]


def nested(n: int, around: Callable[[Any], Any]) -> Any:
    """Return so many mappings or lists, one in the other, around an empty list."""
    return reduce(lambda inner, _: around(inner), range(n), [])


WORST: dict[str, Callable[[], Any]] = {
    "long names": lambda: {f"{number:05}" + "k y " * 120: "" for number in range(7_500)},
    "names": lambda: {f"k{number}": "" for number in range(400_000)},
    "empty texts": lambda: {"": {"": [""] * 400_000}},
    "a long text": lambda: {"text": "x" * 3_700_000},
    "long texts": lambda: {"text": ["x" * 3_000] * 1_000},
    "nothing": lambda: {"list": [None] * 900_000},
    "truth": lambda: {"list": [True] * 900_000},
    "short numbers": lambda: {"list": [0] * 900_000},
    "numbers": lambda: {"list": [10**9] * 400_000},
    "a long number": lambda: {"list": [10**4299] * 800},
    "lists": lambda: {"list": [[]] * 900_000},
    "mappings": lambda: {"list": [{}] * 900_000},
    "deep lists": lambda: {"deep": nested(900, lambda inner: [inner])},
    "deep mappings": lambda: {"deep": nested(900, lambda inner: {"a": inner})},
    "many that are deep": lambda: {"wide": [nested(40, lambda inner: [inner])] * 10_000},
    "signs that JSON escapes": lambda: {"text": ["\x00" * 9] * 90_000},
    "signs beyond the first plane": lambda: {"text": ["\U0001f600" * 9] * 90_000},
    "half signs": lambda: {"text": ["\ud800" * 9] * 90_000},
    "signs that are words": lambda: {"text": ["\ufdfa secret"] * 90_000},
    "signs that are words, in names": lambda: {"\ufdfa" * 20 + f" {number} secret": "" for number in range(90_000)},
    "signs that are letters": lambda: {"text": ["\U0001d41a" * 30] * 30_000},
}


def written(arguments: Any, recogniser: Recogniser | None = None) -> Any:
    """Return how arguments stand in a line."""
    said = {"tool": "git_log", "verdict": "permitted", "arguments": cut(arguments)}
    return line("call", said, {}, recogniser or Recogniser())["arguments"]


class Endless(dict[str, Any]):
    """A mapping that fails the test where more of it is looked at than has room."""

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]
        for number in range(ROOM):
            yield f"{number}", None
        raise AssertionError("more was looked at than can be written")


class TestArguments:
    @every(
        "arguments",
        [
            {},
            {"text": "a b", "n": 7, "big": 10**8 - 1, "no": None, "yes": True, "half": 0.5, "list": [1, {"deep": []}]},
            {"text": "x" * LONGEST},
            {"rows": [{"id": number} for number in range(300)]},
            {"é": "日本"},
        ],
    )
    def test_that_have_room_stand_as_they_are(self, arguments: Any) -> None:
        assert written(arguments) == arguments

    @every("name", WORST)
    def test_of_whatever_form_take_so_much_room_and_no_more_work(self, name: str) -> None:
        recogniser = Recogniser()
        text = json.dumps(written(WORST[name](), recogniser))
        assert "\\u2026" in text
        assert len(text) < 2.5 * ROOM
        assert recogniser.n_read < 3 * ROOM
        assert recogniser.n_texts < ROOM / 2
        assert recogniser.longest <= ENOUGH - 1

    def test_that_have_no_room_are_not_looked_at(self) -> None:
        for arguments in (Endless(), {"list": [Endless()]}):
            assert len(json.dumps(cut(arguments))) < 1.5 * ROOM

    def test_are_a_copy_that_nobody_changes_meanwhile(self) -> None:
        given = {"list": [{"a": 1}]}
        kept = cut(given)
        given["list"][0]["a"] = 2
        given["list"].append({})
        assert kept == {"list": [{"a": 1}]}

    @every("n", [range(3_940, 4_000)])
    def test_have_each_text_whole_or_not_at_all(self, n: range) -> None:
        kept = [cut({"text": "x" * length})["text"] for length in n]
        assert {len(text) for text in kept} == {1, *range(n[0], n[0] + kept.index("…"))}

    def test_so_deep_that_readers_may_fail_are_left_out_and_others_stay(self) -> None:
        deep = nested(48, lambda inner: {"a": inner})
        assert cut([deep, "beside"]) == [deep, "beside"]
        assert json.dumps(cut([[deep], "beside"])) == json.dumps([[deep], "beside"]).replace("[]", '"\\u2026"')

    @every(
        "number",
        [float("nan"), float("inf"), float("-inf"), 10**20, -(10**20), 1 << 20_000],
        ids="nan inf -inf 20 -20 long".split(),
    )
    def test_that_are_numbers_which_not_every_reader_takes_are_left_out(self, number: float) -> None:
        assert written({"n": number, "m": 2**53}) == {"n": "…", "m": 2**53}

    def test_that_are_long_numbers_are_read_for_secrets_and_short_ones_are_not(self) -> None:
        recogniser = Recogniser()
        assert written([12345678, 123456789, 1.5, None, False], recogniser) == [12345678, 123456789, 1.5, None, False]
        assert recogniser.n_texts == 1

    def test_of_a_name_that_tells_of_a_secret_are_left_out_whatever_they_are(self) -> None:
        given = {"mySecret": ["a", {"b": "c"}], "my_secret": 1, "mine": {"secret": "x", "open": "y secret"}}
        assert written(given) == {"mySecret": "…", "my_secret": "…", "mine": {"…": "…", "open": "y …"}}


class TestNames:
    """Who calls a denied name waits for the same work as who calls one that never was (law L1)."""

    @every("name", ["git_push", "my secret push", "x" * 700])
    def test_of_denied_tools_are_written_whole_after_the_work_for_unknown_ones(self, name: str) -> None:
        denied, unknown = Recogniser(), Recogniser()
        why = {"reason": "denied by a secret rule of a long file " * 20}
        told = line("refused", {"tool": name, "verdict": "denied"}, why, denied)
        line("refused", {"tool": name, "verdict": "unknown"}, {}, unknown)
        assert (told["tool"], told["reason"]) == (name, why["reason"])
        assert (denied.n_texts, denied.n_read) == (unknown.n_texts, unknown.n_read)

    @every("verdict", ["unknown", "refused"])
    def test_that_are_no_tools_are_written_without_secrets(self, verdict: str) -> None:
        assert line("refused", {"tool": "a secret", "verdict": verdict}, {}, Recogniser())["tool"] == "a …"

    def test_of_permitted_tools_are_not_read(self) -> None:
        recogniser = Recogniser()
        assert line("call", {"tool": "a secret", "verdict": "permitted"}, {}, recogniser)["tool"] == "a secret"
        assert recogniser.n_texts == 0


class TestBytes:
    @every(
        ("result", "expected"),
        [
            ({}, 0),
            ({"content": [{"text": "né"}, {"blob": "AAAA"}]}, len("contenttextnéblobAAAA".encode())),
            ({"structuredContent": {"rows": [[1, 2.5], [None, True]]}}, len("structuredContentrows12.5NoneTrue")),
            ({"half": "\ud800"}, len("half?")),
        ],
    )
    async def test_are_those_of_all_names_and_values(self, result: dict[str, Any], expected: int) -> None:
        assert await n_bytes_of(result) == expected

    async def test_of_a_long_result_hold_up_nothing_else(self) -> None:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            turning = group.create_task(turn())
            await n_bytes_of(json.loads("[" + ",".join(['{"a":1}'] * 20_000) + "]"))
            turning.cancel()
        assert turns >= 10
