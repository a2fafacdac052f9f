"""Keys that lead back to nobody."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from agent_utilities.usage.model import UsageError, read_salt, subject_key, usage_file


class TestSubjects:
    def test_a_key_is_the_same_in_every_process(self, tmp_path: Path) -> None:
        first, second = (read_salt(tmp_path / "usage.db") for _ in range(2))
        assert subject_key(first, "anna@example.org") == subject_key(second, "anna@example.org")

    def test_a_key_is_16_digits_and_has_nothing_of_the_subject(self) -> None:
        key = subject_key(bytes(32), "anna")
        assert len(key) == 16
        assert int(key, 16)

    def test_another_log_gives_another_key(self, tmp_path: Path) -> None:
        first, second = read_salt(tmp_path / "a.db"), read_salt(tmp_path / "b.db")
        assert subject_key(first, "anna") != subject_key(second, "anna")

    def test_a_subject_that_is_no_proper_text_has_one(self) -> None:
        assert subject_key(bytes(32), "\ud800") != subject_key(bytes(32), "?")


class TestSalt:
    def test_is_32_bytes_that_only_its_user_reads(self, tmp_path: Path) -> None:
        read_salt(tmp_path / "state" / "usage.db")
        (path,) = (tmp_path / "state").iterdir()
        assert path.name == "usage.db.salt"
        assert path.stat().st_size == 32
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_one_that_is_not_whole_is_not_used(self, tmp_path: Path) -> None:
        (tmp_path / "usage.db.salt").write_bytes(b"short")
        with pytest.raises(UsageError, match="5 bytes of salt, not 32"):
            read_salt(tmp_path / "usage.db")


class TestLocation:
    def test_the_operators_file_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/anna")
        assert usage_file("demo", "~/log.db") == Path("/home/anna/log.db")

    def test_else_the_server_names_one_in_the_users_state(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_STATE_HOME", "/state")
        assert usage_file("my/../server").name == "my_.._server.db"
        assert usage_file("demo").parent.name == "usage"

    def test_a_server_without_a_name_has_one_too(self) -> None:
        assert usage_file("").name == "server.db"
