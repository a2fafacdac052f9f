"""No secret of a request is written down, and hardly a word that is none is lost."""

from __future__ import annotations

import base64
import random
import string
import time

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.usage.redaction import LONGEST_REQUEST, without_secrets
from tests.every import every

BASE62 = string.ascii_letters + string.digits
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----"


class TestIsDropped:
    @every(
        "secret",
        [
            "sk-proj-abcdefghijkl",
            "sk-ant-api03-abcdefghij",
            "sk-1234567890abcdefghij",
            "sk_live_abcdefghij",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "github_pat_11ABCDEFG",
            "glpat-abcdefghijklmnopqrst",
            "AKIAIOSFODNN7EXAMPLE",
            "xoxb-123456-abcdef",
            "eyJhbGciOiJIUzI1NiJ9.e30.abc",
            "AIzaSyAbcdefghijklm",
            "hf_abcdefghijklmnopqrstuvwxyz",
            "npm_abcdefghijklmnopqrstuvwxyz0123456789",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "d41d8cd98f00b204e9800998ecf8427e",
            "123e4567-e89b-12d3-a456-426614174000",
            "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
            "qzjxkvwqpfhgtrmxzqkd",
            "bob@example.com",
            "jürgen.müller@example.de",
            "root@localhost",
            "bob%40example.com",
            "postgres://app:hunter2@db/prod",
            "10.0.0.17",
            "fe80::1ff:fe23:4567:890a",
            "2001:db8::1",
            "00:1B:44:11:3A:B7",
            "4111-1111-1111-1111",
            "4111_1111_1111_1111",
            "+491512345678",
            "DE89370400440532013000",
            "password=hunter2",
            "DB_PASSWORD:hunter2",
            '{"api_key":"abc"}',
            "密码:hunter2",
        ],
    )
    def test_a_word_that_is_one(self, secret):
        assert without_secrets(f"please use {secret} today") == "please use today"

    @every(
        ("text", "left"),
        [
            ("my password is hunter2 now", "my password is now"),
            ("my password: swordfish now", "my password: now"),
            ("my PASSWORT = swordfish now", "my PASSWORT = now"),
            ("with password hunter2 now", "with password now"),
            ("run --token swordfish now", "run --token now"),
            ("curl -u admin:swordfish now", "curl -u now"),
            ("api key abc1 now", "api key now"),
            ("Authorization: Bearer abc now", "Authorization: now"),
            ("send Bearer abcdef now", "send Bearer now"),
            ("send Basic dXNlcjpwYXNz now", "send Basic now"),
            ('{"password": "swordfish"} now', '{"password": now'),
            ('password="correct horse battery" now', "now"),
            ("secret: 'correct horse battery' now", "secret: now"),
            ("card 4111 1111 1111 1111 now", "card now"),
            ("card 4111 - 1111 - 1111 - 1111 now", "card now"),
            ("call +1 (555) 123-4567 now", "call now"),
            ("iban DE89 3704 0044 0532 0130 00 now", "iban now"),
            (f"sign with {PEM} now", "sign with now"),
            (
                "fetch https://docs.example/d/1BxiMVs0XRA5nFMdKvBdBZjgmUUqptlbs74OgvE2/edit",
                "fetch https://docs.example",
            ),
            ("fetch https://s3.example/a.txt?X-Amz-Signature=abc now", "fetch https://s3.example now"),
            ("fetch https://bob:hunter2@example.com/a now", "fetch now"),
        ],
    )
    def test_what_several_words_make_one(self, text, left):
        assert without_secrets(text) == left

    @every(
        "secret",
        [
            "４１１１１１１１１１１１１１１１",
            "٤١١١١١١١١١١١١١١١",
            "4111\u200b1111\u200b1111\u200b1111",
            "4111\u20111111\u20131111\u20141111",
            "\u202e4111111111111111\u202c",
            "bob\u00ad@exam\u200dple.com",
            "gh\u200bp_abcdefghijklmnop",
            "gh\x00p_abcdefghijklmnop",
            "ｇｈｐ＿abcdefghijklmnop",
            "bob＠example.com",
            "pass\ufeffword=hunter2",
            "ghp_\u0301abcdefghijklmnop",
        ],
    )
    def test_one_in_other_characters_or_with_some_that_are_not_seen(self, secret):
        assert without_secrets(f"use {secret} today") == "use today"

    def test_one_amid_words_that_no_space_divides(self):
        assert without_secrets("请发送到bob@example.com谢谢") == "请发送到谢谢"

    def test_a_key_amid_letters_that_no_space_divides(self):
        words = "thelasttransactionofthisaccountisstored"
        assert without_secrets(f"use {words}qzjxkvwqpfhgtrmxzqkdvbnx{words} today") == "use today"


class TestStays:
    @every(
        "text",
        [
            "What changed last week?",
            "open report_2024-01-15.csv and src/agent_utilities/usage/redaction.py",
            "call getUserByIdFromDatabase then list_pull_requests_for_repository",
            "azure-mcp_search_knowledge_base_get with max_tokens=100",
            "meet at 10:30:45.123 on 2024-01-15 or 15.01.2024",
            "compare 2019 2020 2021 2022 2023",
            "sort [10, 2, 5, 4, 92, 101, 3, 8, 7]",
            "commit a1b2c3d of react@18.2.0 and @scope/package",
            "std::vector of 1,000,000 items, 3.14 each",
            "the risk-management and task-force of the disk-encryption-set",
            "reset the password of my account",
            "the token limits of a bearer token",
            "the key Q3 metrics of 2024",
            "arXiv 2105.12345 in /root/pdf/iphone16_visual_strategy.md",
            "Geschwindigkeitsbegrenzung in Österreich",
            "最近の天気を教えて",
            "c'est déjà l'été",
            "ask 👩‍🔬 of it".replace("\u200d", ""),
        ],
    )
    def test_an_ordinary_request(self, text):
        assert without_secrets(text) == text

    def test_whitespace_is_made_one(self):
        assert without_secrets("  what\n\tchanged \u00a0 here ") == "what changed here"


def random_of(alphabet: str, length: int) -> st.SearchStrategy[str]:
    """Keys as chance makes them: Hypothesis would try `AAAA…`, which no issuer gives."""
    return st.integers(0, 2**32).map(lambda seed: "".join(random.Random(seed).choices(alphabet, k=length)))


ISSUED = st.one_of(
    st.builds(
        str.__add__, st.sampled_from(["ghp_", "glpat-", "xoxb-", "AIza", "eyJ", "hf_", "npm_"]), random_of(BASE62, 36)
    ),
    random_of(string.ascii_uppercase + string.digits, 16).map("AKIA".__add__),
    random_of(BASE62, 36).map("sk-proj-".__add__),
    random_of("0123456789abcdef", 32),
    random_of(BASE62, 40),
    random_of(BASE62 + "-_", 48),
)
NUMBERS = st.builds(
    lambda groups, mark: mark.join(groups),
    st.lists(st.text("0123456789", min_size=3, max_size=4), min_size=4, max_size=5),
    st.sampled_from(["", "-", " ", "/"]),
)
ADDRESSES = st.builds("{}@{}.example".format, st.text(BASE62, min_size=1, max_size=8), st.text("abcxyz", min_size=1))
AROUND = st.text(max_size=60)


class TestLaws:
    @given(AROUND, st.one_of(ISSUED, NUMBERS, ADDRESSES), AROUND)
    def test_a_secret_in_any_text_is_not_in_what_is_left(self, before, secret, after):
        assert secret not in without_secrets(before + secret + after)

    @given(
        AROUND, st.sampled_from(["password=", "api_key: ", "token = ", "Bearer ", "secret is "]), random_of(BASE62, 8)
    )
    def test_nor_is_what_a_key_announces(self, before, key, secret):
        assert secret not in without_secrets(f"{before} {key}{secret} and more")

    @given(st.text())
    def test_what_is_left_can_be_written(self, text):
        left = without_secrets(text)
        assert left.encode() == left.encode("utf-8", "strict")
        assert len(left) <= LONGEST_REQUEST
        assert left == " ".join(left.split())

    @given(st.lists(st.sampled_from("list open the report of last week git_log src/main.py v2 2024".split())))
    def test_ordinary_words_are_left_alone(self, words):
        text = " ".join(words)
        assert without_secrets(text) == text[:LONGEST_REQUEST] or len(text) > LONGEST_REQUEST


class TestBounds:
    def test_a_long_request_ends_with_a_whole_word(self):
        assert without_secrets("word " * 1_000) == " ".join(["word"] * 100)

    def test_no_part_of_a_secret_is_left_where_reading_ends(self):
        token = "ghp_" + "a1" * 18
        left = without_secrets("\u200b" * 4_090 + " " + token)
        assert left == ""

    @every("place", range(1, 20))
    def test_no_group_of_a_number_is_left_where_reading_ends(self, place):
        assert without_secrets("\u200b" * (4_096 - place) + "4111 1111 1111 1111 and more") == ""

    @every("place", range(1, 25))
    def test_no_group_of_a_key_is_left_where_reading_ends(self, place):
        assert without_secrets("\u200b" * (4_096 - place) + "AKIA IOSF ODNN ZEXA MPLE and more") == ""

    @every("most", [10, 14, 20, 40])
    def test_as_much_is_read_as_is_said_and_its_last_word_is_none(self, most):
        text = "open the report of last week " * 10
        assert without_secrets(text, most) == text[:most].rpartition(" ")[0]
        assert without_secrets(text[:most], most) == text[:most].strip()

    def test_no_more_is_read_where_letters_stand_for_words(self):
        assert without_secrets("\ufdfa " * 20, 100) == ("صلى الله عليه وسلم " * 6)[:98]

    @every("text", ["-" * 4_096, "\ufdfa" * 4_096, "--BEGIN" + "-" * 4_096, "-- " * 1_365, "--" + " " * 4_094])
    def test_no_text_takes_many_times_as_long_as_another_of_its_length(self, text):
        def seconds(text):
            started = time.process_time()
            without_secrets(text)
            return time.process_time() - started

        seconds("what is read first takes longer: rules are made")
        assert min(seconds(text) for _ in range(3)) < 20 * min(seconds("a" * 4_096) for _ in range(3))

    @every(
        "unit",
        [
            "a",
            "1",
            "-",
            "a@",
            "1-",
            "1 ",
            ": ",
            "password ",
            "password: ",
            '"',
            "-----BEGIN ",
            "aA1",
            "::",
            "1.1.",
            "%40",
            "sk-",
            "xoxb-",
            "\u200b",
            "\u0301",
            "\ufdfa",
            "密",
            "https://",
            "(1",
            "/a",
            "is ",
        ],
    )
    def test_a_megabyte_of_anything_is_read_at_once(self, unit):
        text = unit * (1_000_000 // len(unit))
        started = time.process_time()
        without_secrets(text)
        assert time.process_time() - started < 1.0

    def test_base64_of_a_file_is_dropped(self):
        assert without_secrets(f"show {base64.b64encode(random.Random(1).randbytes(300)).decode()} now") == "show now"
