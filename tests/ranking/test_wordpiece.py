"""Word pieces: those that `tokenizers` itself would find."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

tokenizers = pytest.importorskip("tokenizers")

PIECES = ["[UNK]", "[CLS]", "[SEP]", "list", "##s", "in", "##voice", "a", "##b", "b", "##a", ".", "\u67e5", "e", "##e"]


@given(text=st.lists(st.sampled_from([*"abes .\u67e5\u00e9X\n", "lists", "invoices", "[SEP]", "a" * 101])).map("".join))
@settings(max_examples=200)
def test_they_are_those_of_the_library(text):
    from agent_utilities.ranking.minilm import Pieces

    numbers = {piece: number for number, piece in enumerate(PIECES)}
    library = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token="[UNK]"))
    library.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    library.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    assert Pieces("\n".join(PIECES)).ids(text, 20) == [1, *library.encode(text).ids[:18], 2]


def test_an_unpaired_surrogate_is_no_matter():
    from agent_utilities.ranking.minilm import Pieces

    assert Pieces("\n".join(PIECES)).ids("a \ud800", 20)[:2] == [1, 7]
