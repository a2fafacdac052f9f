"""BERT's layers on numpy: from the numbers of word pieces to a vector of unit length.

Source: Devlin et al. 2019, BERT; Reimers & Gurevych 2019, Sentence-BERT (mean pooling, unit length).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_utilities.ranking.embedding import unit_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_N_HEADS = 12
_N_LAYERS = 6
_EPSILON = 1e-12


class Bert:
    """A model of six layers.

    Args:
        tensors: its weights by name.

    Raises:
        KeyError: a tensor is absent.
    """

    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._words = tensors["embeddings.word_embeddings.weight"]
        self._positions = tensors["embeddings.position_embeddings.weight"]
        self._text_type = tensors["embeddings.token_type_embeddings.weight"][0]
        self._norm = _Norm.of(tensors, "embeddings.LayerNorm")
        self._layers = [_Layer(tensors, f"encoder.layer.{number}.") for number in range(_N_LAYERS)]

    def embed(self, ids: NDArray[np.int64]) -> Array:
        """Return a vector of unit length for each text: (n_texts, width).

        Args:
            ids: (n_texts, n_tokens) the numbers of word pieces, of texts of one length: no padding, so no mask.
        """
        hidden = self._norm(self._words[ids] + self._positions[: ids.shape[1]] + self._text_type)
        for layer in self._layers:
            hidden = layer(hidden)
        return unit_vectors(hidden.mean(axis=1))


class _Linear(NamedTuple):
    weight: Array
    bias: Array

    @classmethod
    def of(cls, tensors: Mapping[str, Array], name: str) -> _Linear:
        import numpy as np

        return cls(np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"])

    def __call__(self, hidden: Array) -> Array:
        product: Array = hidden @ self.weight + self.bias
        return product


class _Norm(NamedTuple):
    weight: Array
    bias: Array

    @classmethod
    def of(cls, tensors: Mapping[str, Array], name: str) -> _Norm:
        return cls(tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    def __call__(self, hidden: Array) -> Array:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        normed: Array = centred / (variance + _EPSILON) ** 0.5 * self.weight + self.bias
        return normed


class _Layer:
    def __init__(self, tensors: Mapping[str, Array], prefix: str) -> None:
        import numpy as np

        parts = [_Linear.of(tensors, f"{prefix}attention.self.{part}") for part in ("query", "key", "value")]
        weight = np.concatenate([part.weight for part in parts], axis=1)
        self._query_key_value = _Linear(weight, np.concatenate([part.bias for part in parts]))
        self._mix = _Linear.of(tensors, f"{prefix}attention.output.dense")
        self._widen = _Linear.of(tensors, f"{prefix}intermediate.dense")
        self._narrow = _Linear.of(tensors, f"{prefix}output.dense")
        self._norm_attended = _Norm.of(tensors, f"{prefix}attention.output.LayerNorm")
        self._norm_fed = _Norm.of(tensors, f"{prefix}output.LayerNorm")

    def __call__(self, hidden: Array) -> Array:
        """Return the next hidden states: (n_texts, n_tokens, width), as they come."""
        n_texts, n_tokens, width = hidden.shape
        heads = self._query_key_value(hidden).reshape(n_texts, n_tokens, 3, _N_HEADS, -1)
        query, key, value = heads.transpose(2, 0, 3, 1, 4)
        attention = _softmax(query @ key.swapaxes(-1, -2) * (width // _N_HEADS) ** -0.5)
        mixed = (attention @ value).swapaxes(1, 2).reshape(n_texts, n_tokens, width)
        attended = self._norm_attended(hidden + mixed @ self._mix.weight + self._mix.bias)
        return self._norm_fed(attended + self._narrow(_gelu(self._widen(attended))))


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
