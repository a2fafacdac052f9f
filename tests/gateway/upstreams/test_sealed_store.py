"""What is sealed by the operator's key: it opens under its own name and that key alone."""

from __future__ import annotations

import logging
import shutil
from base64 import urlsafe_b64encode
from pathlib import Path

import pytest
from pydantic import RootModel

from agent_utilities.errors import SettingsError
from agent_utilities.gateway.upstreams.sealed_store import SealedStore, new_key, read_key
from tests.every import every


class Entry(RootModel[str]):
    """What is kept here."""


def of(store: SealedStore, *name: str) -> str | None:
    entry = store.load(Entry, *name)
    return entry.root if entry is not None else None


KEY = read_key(new_key(), "")
ANN, BOB = ("login", "local", "ann", "mail"), ("login", "local", "bob", "mail")


def store_in(folder: Path) -> SealedStore:
    store = SealedStore(folder / "kept", KEY)
    store.save(Entry("ann's token"), *ANN)
    store.save(Entry("bob's token"), *BOB)
    return store


@pytest.fixture
def store(tmp_path: Path) -> SealedStore:
    return store_in(tmp_path)


def files(folder: Path) -> list[Path]:
    return sorted((folder / "kept").iterdir())


class TestEntries:
    def test_are_found_by_their_names(self, store: SealedStore) -> None:
        assert (of(store, *ANN), of(store, *BOB)) == ("ann's token", "bob's token")
        assert of(store, "login", "local", "eve", "mail") is None

    def test_that_were_swapped_give_nobody_anothers(self, store: SealedStore, tmp_path: Path) -> None:
        one, other = files(tmp_path)
        one.rename(tmp_path / "held")
        other.rename(one)
        (tmp_path / "held").rename(other)
        assert (of(store, *ANN), of(store, *BOB)) == (None, None)

    def test_put_in_the_place_of_each_other_give_nobody_anothers(self, store: SealedStore, tmp_path: Path) -> None:
        one, other = files(tmp_path)
        shutil.copy(one, other)
        assert (of(store, *ANN), of(store, *BOB)) in (("ann's token", None), (None, "bob's token"))

    def test_open_by_no_other_key_which_is_told(
        self, store: SealedStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = SealedStore(tmp_path / "kept", read_key(new_key(), ""))
        assert of(other, *ANN) is None  # it looks for another file
        first = files(tmp_path)[0]
        changed = bytearray(first.read_bytes())
        changed[-1] ^= 1
        first.write_bytes(bytes(changed))
        with caplog.at_level(logging.WARNING):
            assert None in (of(store, *ANN), of(store, *BOB))
        assert "it was sealed by another key or version, or changed" in caplog.text
        assert "ann" not in caplog.text.replace(str(tmp_path), "")

    @every("content", [b"", b"agent-utilities sealed 1\n", b"agent-utilities sealed 1\nshort", b"x" * 99])
    def test_that_are_none_count_as_none(self, tmp_path: Path, content: bytes) -> None:
        store = store_in(tmp_path)
        for file in files(tmp_path):
            file.write_bytes(content)
        assert (of(store, *ANN), of(store, *BOB)) == (None, None)

    def test_are_sealed_anew_at_each_write(self, store: SealedStore, tmp_path: Path) -> None:
        before = {file.name: file.read_bytes() for file in files(tmp_path)}
        store.save(Entry("ann's token"), *ANN)
        after = {file.name: file.read_bytes() for file in files(tmp_path)}
        (changed,) = [name for name in before if before[name] != after[name]]
        assert before[changed][25:37] != after[changed][25:37]

    def test_tell_nothing_to_who_has_no_key(self, store: SealedStore, tmp_path: Path) -> None:
        for file in files(tmp_path):
            assert file.stat().st_mode & 0o777 == 0o600
            assert not any(word in file.read_bytes() for word in (b"ann", b"bob", b"token", b"mail"))
        assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
        elsewhere = SealedStore(tmp_path / "other", read_key(new_key(), ""))
        elsewhere.save(Entry(""), *ANN)
        assert not {file.name for file in (tmp_path / "other").iterdir()} & {file.name for file in files(tmp_path)}

    def test_that_are_removed_are_gone(self, store: SealedStore) -> None:
        store.remove(*ANN)
        store.remove(*ANN)
        assert (of(store, *ANN), of(store, *BOB)) == (None, "bob's token")


class TestKey:
    def test_is_32_bytes_and_another_each_time(self) -> None:
        assert len(KEY) == 32
        assert new_key() != new_key()

    def test_may_stand_in_a_file(self, tmp_path: Path) -> None:
        text = new_key()
        (tmp_path / "key").write_text(f"{text}\n")
        assert read_key("", str(tmp_path / "key")) == read_key(text, "")

    @every(
        ("text", "told"),
        [
            ("", "no secret key"),
            (urlsafe_b64encode(b"x" * 16).decode(), "is no 32 bytes in URL-safe base64"),
            (urlsafe_b64encode(b"x" * 33).decode(), "is no 32 bytes in URL-safe base64"),
            ("schlüssel", "is no 32 bytes in URL-safe base64"),
            ("abc", "is no 32 bytes in URL-safe base64"),
        ],
    )
    def test_that_is_none_is_refused_without_being_shown(self, text: str, told: str) -> None:
        with pytest.raises(SettingsError, match=told) as caught:
            read_key(text, "")
        assert not text or text not in str(caught.value)

    def test_whose_file_is_not_there_is_told_with_it(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match=r"can't be read \(no such file or directory\).*nokey"):
            read_key("", str(tmp_path / "nokey"))
