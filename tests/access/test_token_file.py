"""Tokens for a small team: kept as hashes, whole, and for their owner's eyes alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path

import pytest

from agent_utilities.access.token_file import new_token, read_tokens, revoke_token
from agent_utilities.errors import InputError
from tests.every import every
from tests.runtime.odd_files import ODD


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "team" / "tokens.json"


class TestNew:
    def test_keeps_the_hash_and_not_the_token(self, file: Path) -> None:
        text = new_token(file, "ann")
        assert text not in file.read_text()
        assert json.loads(file.read_text())["tokens"][0]["sha256"] == sha256(text.encode()).hexdigest()

    def test_writes_a_file_that_is_its_owners_alone(self, file: Path) -> None:
        new_token(file, "ann")
        assert file.stat().st_mode & 0o777 == 0o600

    def test_has_256_random_bits_each(self, file: Path) -> None:
        texts = {new_token(file, f"bot-{number}") for number in range(20)}
        assert (len(texts), {len(text) for text in texts}) == (20, {len("au_") + 43})

    @every("name", ["", "a b", "a\n", "*", "x" * 101, "ünï"])
    def test_refuses_what_is_no_name(self, name: str, tmp_path: Path) -> None:
        file = tmp_path / "team" / "tokens.json"
        with pytest.raises(InputError, match="not a name"):
            new_token(file, name)

    @every("name", ["a", "7", "ann.o_b@team+bot-1", "x" * 100])
    def test_takes_what_is_a_name(self, name: str, tmp_path: Path) -> None:
        file = tmp_path / "team" / "tokens.json"
        text = new_token(file, name)
        found = read_tokens(file).find(text)
        assert found is not None
        assert found.name == name

    @every("time", ["90", "0d", "d", "-1d", "1w", "1.5d", "999999d"])
    def test_refuses_what_is_no_time(self, time: str, tmp_path: Path) -> None:
        file = tmp_path / "team" / "tokens.json"
        with pytest.raises(InputError, match="not a time"):
            new_token(file, "ann", valid_for=time)
        assert not file.exists()

    def test_refuses_a_second_token_of_a_name(self, file: Path) -> None:
        first = new_token(file, "ann")
        with pytest.raises(InputError, match="there is a token of this name"):
            new_token(file, "ann")
        assert read_tokens(file).find(first) is not None

    @pytest.mark.outside
    def test_loses_no_token_that_another_process_makes_at_the_same_time(self, file: Path) -> None:
        program = "import sys; from agent_utilities.access.token_file import *; from pathlib import Path\n"
        program += "for i in range(10): new_token(Path(sys.argv[1]), f'{sys.argv[2]}-{i}')"
        ran = [subprocess.Popen([sys.executable, "-c", program, str(file), name]) for name in ("a", "b")]
        assert [process.wait() for process in ran] == [0, 0]
        assert len(read_tokens(file).tokens) == 20


class TestTime:
    """How long a token is taken, and until when that is."""

    @every(("valid_for", "seconds"), [("90d", 90 * 86_400), ("12h", 43_200), ("30m", 1_800), (" 1d ", 86_400)])
    def test_is_what_was_said_in_whole_seconds(self, valid_for: str, seconds: int, tmp_path: Path) -> None:
        file = tmp_path / "team" / "tokens.json"
        before = datetime.now(UTC).replace(microsecond=0)
        new_token(file, "ann", valid_for=valid_for)
        (token,) = read_tokens(file).tokens
        assert before <= token.created <= datetime.now(UTC)
        assert token.created.microsecond == 0
        assert token.expires == token.created + timedelta(seconds=seconds)

    def test_is_for_ever_where_nothing_was_said(self, file: Path) -> None:
        new_token(file, "ann")
        (token,) = read_tokens(file).tokens
        assert (token.expires, token.is_over(), token.profile) == (None, False, "")

    def test_that_is_over_has_it_found_and_taken_no_more(self, file: Path) -> None:
        texts = {name: new_token(file, name, "readers", valid_for="1m") for name in ("ann", "bob")}
        texts["eve"] = new_token(file, "eve")
        held = json.loads(file.read_text())
        held["tokens"][0]["expires"] = datetime.now(UTC).isoformat()
        file.write_text(json.dumps(held))
        tokens = read_tokens(file)
        found = {name: tokens.find(text) for name, text in texts.items()}
        assert {name: (one.name, one.profile, one.is_over()) for name, one in found.items() if one is not None} == {
            "ann": ("ann", "readers", True),
            "bob": ("bob", "readers", False),
            "eve": ("eve", "", False),
        }
        assert {one.name for one in tokens.taken()} == {"bob", "eve"}

    def test_of_somebody_whose_text_is_nearly_a_token_is_none(self, file: Path) -> None:
        text = new_token(file, "ann")
        tokens = read_tokens(file)
        assert [tokens.find(other) for other in (text[:-1], f"{text}x", text.upper(), "", "\ud800")] == [None] * 5


class TestRevoke:
    def test_takes_the_token_out(self, file: Path) -> None:
        ann, bob = new_token(file, "ann"), new_token(file, "bob")
        revoke_token(file, "ann")
        held = read_tokens(file)
        assert [held.find(text) is not None for text in (ann, bob)] == [False, True]

    def test_of_one_name_leaves_those_that_begin_with_it(self, file: Path) -> None:
        ann, annie = new_token(file, "ann"), new_token(file, "annie")
        revoke_token(file, "ann")
        with pytest.raises(InputError, match="there are: annie"):
            revoke_token(file, "ann")
        revoke_token(file, "annie")
        with pytest.raises(InputError, match="there are: none"):
            revoke_token(file, "annie")
        assert [read_tokens(file).find(text) for text in (ann, annie)] == [None, None]

    def test_of_nobody_tells_who_there_are(self, file: Path) -> None:
        new_token(file, "ann")
        with pytest.raises(InputError, match="there are: ann"):
            revoke_token(file, "anne")


class TestRead:
    def test_of_no_file_finds_nobody(self, file: Path) -> None:
        assert read_tokens(file).tokens == ()

    @every(
        "content",
        [
            "",
            "{",
            "[]",
            "7",
            "{}",
            '{"v": 2, "tokens": []}',
            '{"v": 1, "tokens": [{"name": "ann", "sha256": "x"}]}',
            "[" * 9999,
        ],
    )
    def test_refuses_what_it_did_not_write(self, content: str, tmp_path: Path) -> None:
        path = tmp_path / "tokens.json"
        path.touch(0o600)
        path.write_text(content)
        with pytest.raises(InputError, match="can't be taken"):
            read_tokens(path)

    def test_refuses_a_file_that_others_may_read(self, file: Path) -> None:
        new_token(file, "ann")
        file.chmod(0o640)
        with pytest.raises(InputError, match="chmod 600"):
            read_tokens(file)

    @every("odd", ODD)
    def test_waits_for_nothing_that_is_no_file(self, odd: Callable[[Path], object], tmp_path: Path) -> None:
        path = tmp_path / "tokens.json"
        odd(path)
        for using in (read_tokens, partial(new_token, name="ann"), partial(revoke_token, name="ann")):
            with pytest.raises(InputError, match="the tokens can't be read"):
                using(path)


@every("kind", ["relative", "absolute", "two", "folder"])
class TestLink:
    """What is done by a link is done to the file that it leads to, and the link stays."""

    def linked(self, folder: Path, kind: str) -> tuple[Path, Path]:
        """Return a link, and the file that it leads to."""
        link, file = folder / "tokens.json", folder / "team" / "tokens.json"
        if kind == "folder":
            (folder / "linked").symlink_to("team")
            return folder / "linked" / "tokens.json", file
        if kind == "two":
            (folder / "second").symlink_to(file)
        leads_to: dict[str, Path | str] = {"relative": "team/tokens.json", "absolute": file, "two": "second"}
        link.symlink_to(leads_to[kind])
        return link, file

    def test_takes_a_token_out_of_the_file(self, kind: str, tmp_path: Path) -> None:
        link, file = self.linked(tmp_path, kind)
        ann, bob = new_token(file, "ann"), new_token(file, "bob")
        revoke_token(link, "ann")
        held = read_tokens(file)
        assert [held.find(text) is not None for text in (ann, bob)] == [False, True]
        assert os.path.realpath(link) == str(file)

    def test_that_led_nowhere_leads_to_a_new_file(self, kind: str, tmp_path: Path) -> None:
        link, file = self.linked(tmp_path, kind)
        if link.parent == file.parent.parent:
            text = new_token(link, "ann")
            assert read_tokens(file).find(text) is not None
            assert file.stat().st_mode & 0o777 == 0o600

    def test_takes_turns_with_who_uses_the_file(self, kind: str, tmp_path: Path) -> None:
        link, file = self.linked(tmp_path, kind)
        new_token(file, "ann")
        new_token(link, "bob")
        assert sorted(path.name for path in file.parent.iterdir()) == ["tokens.json", "tokens.json.lock"]


class TestFull:
    def filled(self, file: Path, n_bytes: int, indent: int | None = 1) -> int:
        """Write a file of about so many bytes, and return how many tokens are in it."""
        text = new_token(file, "ann")
        assert read_tokens(file).find(text) is not None
        held = json.loads(file.read_text())
        other = {"name": "bot", "sha256": "0" * 64, "created": "2026-01-01T00:00:00Z"}
        length = len(json.dumps({"v": 1, "tokens": [other, other]}, indent=indent))
        length -= len(json.dumps({"v": 1, "tokens": [other]}, indent=indent))
        held["tokens"] += [{**other, "name": f"b{n:05}"} for n in range(n_bytes // (length + 3))]
        file.write_text(json.dumps(held, indent=indent))
        return len(held["tokens"])

    def test_takes_no_more_and_is_as_it_was(self, file: Path) -> None:
        n_tokens = self.filled(file, 1 << 20, indent=None) - 1000
        held = json.loads(file.read_text())
        file.write_text(json.dumps({"v": 1, "tokens": held["tokens"][:n_tokens]}))
        before = file.read_bytes()
        with pytest.raises(InputError, match=rf"full: '{n_tokens} tokens'.* 1048576 bytes are the most.*revoke"):
            new_token(file, "late")
        assert file.read_bytes() == before

    def test_loses_a_token_all_the_same_however_it_was_written(self, file: Path) -> None:
        n_tokens = self.filled(file, (1 << 20) - 2000, indent=None)
        revoke_token(file, "ann")
        assert len(read_tokens(file).tokens) == n_tokens - 1
        assert file.stat().st_size <= 1 << 20

    def test_takes_tokens_up_to_what_is_read(self, file: Path) -> None:
        self.filled(file, 700_000)
        text = new_token(file, "late")
        assert read_tokens(file).find(text) is not None

    def test_that_was_written_longer_is_refused_with_what_would_do(self, file: Path) -> None:
        self.filled(file, (1 << 20) + 4000, indent=None)
        with pytest.raises(InputError, match=r"can't be read: 'over 1048576 bytes'.*bring back the file"):
            read_tokens(file)


def test_a_pipe_in_the_place_of_the_lock_is_not_waited_for(file: Path) -> None:
    file.parent.mkdir()
    os.mkfifo(file.with_name("tokens.json.lock"))
    with pytest.raises(InputError, match="can't be written"):
        new_token(file, "ann")
