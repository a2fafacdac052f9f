"""Tokenizers of models, where one is installed."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from agent_utilities.catalog.context import ESTIMATE, n_tokens
from agent_utilities.cli.context import tokenizer_of
from agent_utilities.errors import InputError


@pytest.fixture
def words_file(tmp_path):
    """A tokenizer whose tokens are words, and which puts one more around what is prompted."""
    words = Tokenizer(models.WordLevel({"[START]": 0, "a": 1, "b": 2, "[?]": 3}, unk_token="[?]"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="[START] $A", special_tokens=[("[START]", 0)])
    path = tmp_path / "tokenizer.json"
    words.save(str(path))
    return path


def encodings(encoding_for_model):
    return SimpleNamespace(encoding_for_model=encoding_for_model)


class TestAFile:
    def test_counts_without_what_is_put_around_a_prompt(self, words_file):
        assert tokenizer_of(str(words_file)).count("a b a") == 3

    def test_may_be_named_by_its_folder(self, words_file):
        assert tokenizer_of(str(words_file.parent)).name == f"tokenizers, {words_file}"

    def test_counts_of_a_tool_what_a_model_is_shown(self, words_file):
        tool = {"name": "a", "description": "b b b", "outputSchema": {"description": "a a a a a"}}
        assert tokenizer_of(str(words_file)).count(tool) == 3

    def test_counts_text_that_is_no_unicode(self, words_file):
        assert tokenizer_of(str(words_file)).count("a \ud800") == 2

    def test_that_is_not_there_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="no such file"):
            tokenizer_of(str(tmp_path / "none.json"))

    def test_that_is_none_is_refused(self, tmp_path):
        (tmp_path / "tokenizer.json").write_text("[]")
        with pytest.raises(InputError, match="not a tokenizer"):
            tokenizer_of(str(tmp_path))

    def test_is_estimated_where_nothing_reads_it(self, words_file, monkeypatch):
        monkeypatch.setitem(sys.modules, "tokenizers", None)
        assert tokenizer_of(str(words_file)).name == f"{ESTIMATE} (tokenizers is not installed: pip install tokenizers)"


class TestAName:
    def test_is_tiktokens(self, monkeypatch):
        encoding = SimpleNamespace(name="o200k_base", encode_ordinary=lambda text: list(text))
        monkeypatch.setitem(sys.modules, "tiktoken", encodings({"gpt-4o": encoding}.__getitem__))
        tokenizer = tokenizer_of("gpt-4o")
        assert (tokenizer.name, tokenizer.count("abc")) == ("tiktoken, o200k_base", 3)

    def test_is_estimated_otherwise_and_the_name_says_why(self, monkeypatch):
        for tiktoken, reason in [
            (None, "tiktoken is not installed: pip install tiktoken"),
            (encodings({}.__getitem__), "tiktoken knows no model 'mine'"),
            (encodings(lambda name: int("no network")), "tiktoken has no vocabulary for 'mine': ValueError"),
        ]:
            monkeypatch.setitem(sys.modules, "tiktoken", tiktoken)
            tokenizer = tokenizer_of("mine")
            assert tokenizer.name == f"{ESTIMATE} ({reason})"
            assert tokenizer.count("some words") == n_tokens("some words")
