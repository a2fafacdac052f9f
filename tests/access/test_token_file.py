"""Tokens for a small team: kept as hashes, whole, and for their owner's eyes alone."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from agent_utilities.access.token_file import new_token, read_tokens, revoke_token
from agent_utilities.errors import InputError


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

    @pytest.mark.parametrize("name", ["", "a b", "a\n", "*", "x" * 101, "ünï"])
    def test_refuses_what_is_no_name(self, name: str, file: Path) -> None:
        with pytest.raises(InputError, match="not a name"):
            new_token(file, name)

    @pytest.mark.parametrize("time", ["90", "0d", "d", "-1d", "1w", "1.5d", "999999d"])
    def test_refuses_what_is_no_time(self, time: str, file: Path) -> None:
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


class TestRevoke:
    def test_takes_the_token_out(self, file: Path) -> None:
        ann, bob = new_token(file, "ann"), new_token(file, "bob")
        revoke_token(file, "ann")
        held = read_tokens(file)
        assert [held.find(text) is not None for text in (ann, bob)] == [False, True]

    def test_of_nobody_tells_who_there_are(self, file: Path) -> None:
        new_token(file, "ann")
        with pytest.raises(InputError, match="there are: ann"):
            revoke_token(file, "anne")


class TestRead:
    def test_of_no_file_finds_nobody(self, file: Path) -> None:
        assert read_tokens(file).tokens == ()

    @pytest.mark.parametrize(
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
