"""The store of vectors: kept between processes, and never in the way."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from agent_utilities.query.ranking.hybrid import HybridRanker
from agent_utilities.query.ranking.vector_store import VectorStore
from tests.query.ranking.catalogs import TOOLS, Concepts


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "vectors.sqlite"


def stored(path) -> dict[str, list[float]]:
    return {text: vector.tolist() for text, vector in VectorStore(path).get("m", "document", ["a", "b"]).items()}


def store_one(path) -> None:
    VectorStore(path).put("m", "document", {"a": np.array([1, 2], dtype=np.float32)})


def column(path) -> list[bytes]:
    with closing(sqlite3.connect(path)) as connection:
        return [blob for (blob,) in connection.execute("SELECT vector FROM vectors")]


def replace_blob(path, blob: bytes | str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE vectors SET vector = ?", (blob,))
        connection.commit()


class TestStore:
    def test_a_vector_is_stored(self, path):
        store_one(path)
        assert stored(path) == {"a": [1, 2]}

    def test_models_and_roles_do_not_mix(self, path):
        for model, role in [("other", "document"), ("m", "query")]:
            store_one(path)
            assert VectorStore(path).get(model, role, ["a"]) == {}

    def test_a_vector_with_any_byte_flipped_counts_as_absent(self, path):
        store_one(path)
        (blob,) = column(path)
        for position in range(len(blob)):
            damaged = bytearray(blob)
            damaged[position] ^= 1
            replace_blob(path, bytes(damaged))
            assert stored(path) == {}, f"byte {position}"
        replace_blob(path, blob)
        assert stored(path) == {"a": [1, 2]}

    def test_what_is_no_vector_counts_as_absent(self, path):
        for damaged in [b"", b"12345678", "text"]:
            store_one(path)
            replace_blob(path, damaged)
            assert stored(path) == {}

    def test_a_file_that_is_no_store_is_made_anew(self, path, caplog):
        path.parent.mkdir()
        path.write_bytes(b"not a store at all" * 100)
        with caplog.at_level(logging.WARNING):
            store_one(path)
        assert stored(path) == {"a": [1, 2]}
        assert "damaged" in caplog.text

    def test_a_place_that_cannot_be_written_is_said_once(self, path, caplog):
        path.parent.write_text("a file where the folder should be")
        store = VectorStore(path)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                store.put("m", "document", {"a": np.zeros(2, dtype=np.float32)})
                assert store.get("m", "document", ["a"]) == {}
        assert len(caplog.records) == 1
        assert store.cause

    def test_a_store_that_is_read_only_gives_what_it_has(self, path, monkeypatch):
        store_one(path)
        connect = sqlite3.connect
        monkeypatch.setattr(sqlite3, "connect", lambda p, **kw: connect(f"file:{p}?mode=ro", uri=True, **kw))
        store = VectorStore(path)
        assert store.get("m", "document", ["a"])["a"].tolist() == [1, 2]
        store.put("m", "document", {"b": np.zeros(2, dtype=np.float32)})
        assert "readonly" in store.cause


class TestInARanker:
    def test_the_second_process_embeds_nothing(self, path):
        HybridRanker(Concepts, VectorStore(path)).index(TOOLS)
        second = Concepts()
        index = HybridRanker(lambda: second, VectorStore(path)).index(TOOLS)
        assert second.asked == []
        assert index.rank("git log") == HybridRanker(Concepts).index(TOOLS).rank("git log")

    def test_a_model_that_changed_its_dimension_leaves_the_words(self, path):
        HybridRanker(Concepts, VectorStore(path)).index(TOOLS[:3])
        index = HybridRanker(lambda: Concepts(n_dimensions=7), VectorStore(path)).index(TOOLS)
        assert "dimensions" in index.cause
