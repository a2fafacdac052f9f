"""What a person reads of a call hides nothing that is short, shows nothing secret, and is bounded."""

from __future__ import annotations

import time

from agent_utilities.approvals.shown import described, fitted
from tests.every import every


class TestDescribed:
    def test_has_a_line_for_each_argument(self):
        assert described({"path": "/a", "n": 3, "force": True, "of": None}, 4_000).split("\n") == [
            "path: /a", "n: 3", "force: true", "of: null",
        ]  # fmt: skip

    def test_of_no_arguments_says_so(self):
        assert described({}, 4_000) == "no arguments"

    @every("at", ["first", "middle", "last"])
    def test_shows_a_short_argument_whole_however_long_others_are(self, at: str):
        padding = {f"pad{i}": "pad " * 50_000 for i in range(20)}
        names = list(padding)
        order = {"first": ["force", *names], "middle": [*names[:10], "force", *names[10:]], "last": [*names, "force"]}
        text = described({name: {**padding, "force": "rm -rf /"}[name] for name in order[at]}, 4_000)
        assert "force: rm -rf /" in text.split("\n")

    def test_shows_beginning_and_end_of_a_long_one_and_how_much_is_between(self):
        text = described({"sql": "SELECT 1; " * 2_000 + "DROP TABLE users"}, 1_000)
        assert text.startswith("sql: SELECT 1;")
        assert text.endswith("DROP TABLE users")
        assert "characters left out" in text

    @every(
        ("value", "shown"),
        [
            ("a\u202egnp.exe", "a\\u202egnp.exe"),
            ("a\u200bb", "a\\u200bb"),
            ("a\x1b[2Jb", "a\\x1b[2Jb"),
            ("a\nforce: false", "a\\nforce: false"),
            ("\U000e0041x", "\\U000e0041x"),
            ("naïve 漢字", "naïve 漢字"),
        ],
    )
    def test_makes_what_is_unseen_visible(self, value: str, shown: str):
        assert described({"path": value}, 4_000) == f"path: {shown}"
        assert described({value: 1}, 4_000) == f"{shown}: 1"
        assert (value in described({"in": {"it": value}}, 4_000)) == (value == shown)

    @every(
        "arguments",
        [
            {"password": "hunter2"},
            {"config": {"api_key": "hunter2"}},
            {"header": "Authorization: Bearer hunter2hunter2"},
            {"deep": [{"text": "token=hunter2"}]},
            {"note": "word " * 100 + "password: hunter2 " + "word " * 100},
        ],
    )
    def test_leaves_secrets_out_and_says_so(self, arguments: dict[str, object]):
        text = described(arguments, 4_000)
        assert ("hunter2" in text, "looks like a secret" in text) == (False, True)

    @every(
        "arguments",
        [
            {f"k{i}": {"a": "pad " * 50_000} for i in range(100)},
            {"k": [str(i) * 30 for i in range(100_000)]},
            {"k": {str(i): i for i in range(100_000)}},
            {str(i): "x" for i in range(100_000)},
            {"k": "x" * 5_000_000},
            {"k": "\u202e" * 1_000_000},
        ],
        ids=map(str, range(6)),
    )
    def test_is_bounded_and_takes_no_time(self, arguments: dict[str, object]):
        described({"warm": "up"}, 100)
        began_s = time.process_time()
        assert len(described(arguments, 4_000)) < 16_000
        assert time.process_time() - began_s < 2

    def test_of_a_nest_ends(self):
        nest: object = "end"
        for _ in range(500):
            nest = [nest]
        assert "left out" in described({"nest": nest}, 4_000)


def test_what_is_fitted_again_keeps_its_short_lines():
    text = described({"body": "long " * 500, "force": True}, 4_000)
    assert "force: true" in fitted(text, 400).split("\n")
    assert len(fitted(text, 400)) < 500
