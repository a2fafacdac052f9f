"""BERT's layers on numpy: from the numbers of word pieces to a vector of unit length.

Texts are packed: their tokens stand below one another in one matrix, so that every weight is read once for all of
them and nothing is spent on padding; only attention looks at each text by itself. A product reads and arranges all of
a weight whatever the number of tokens, some 8 ms of a call by themselves: tokens are not cut up for it. What is
computed between two products is done in place, since fresh memory for each step took longer than the step.

Source: Devlin et al. 2019, BERT; Reimers & Gurevych 2019, Sentence-BERT (mean pooling, unit length).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agent_utilities.ranking.embedding import unit_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_N_HEADS = 12
_N_LAYERS = 6
_EPSILON = 1e-12
_N_ROWS = 64
"""Tokens whose numbers go through the unit at a time: so many fit a processor's own cache."""


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

    def embed(self, texts: Sequence[Sequence[int]]) -> Array:
        """Return a vector of unit length for each text: (n_texts, width).

        Args:
            texts: for each the numbers of its word pieces; one at least.
        """
        import numpy as np

        ends = np.cumsum([len(ids) for ids in texts])
        spans = [slice(end - len(ids), end) for end, ids in zip(ends.tolist(), texts, strict=True)]
        hidden = self._words[np.concatenate(texts)] + self._text_type
        for span in spans:
            hidden[span] += self._positions[: span.stop - span.start]
        self._norm.apply(hidden)
        for layer in self._layers:
            layer.apply(hidden, spans)
        return unit_vectors(np.stack([hidden[span].mean(axis=0) for span in spans]))


class _Linear(NamedTuple):
    weight: Array
    bias: Array

    @classmethod
    def of(cls, tensors: Mapping[str, Array], name: str) -> _Linear:
        import numpy as np

        return cls(np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"])

    def __call__(self, hidden: Array) -> Array:
        product: Array = hidden @ self.weight
        product += self.bias
        return product


class _Norm(NamedTuple):
    weight: Array
    bias: Array

    @classmethod
    def of(cls, tensors: Mapping[str, Array], name: str) -> _Norm:
        return cls(tensors[f"{name}.weight"], tensors[f"{name}.bias"])

    def apply(self, hidden: Array) -> None:
        """Norm each row in place."""
        import numpy as np

        hidden -= hidden.mean(axis=-1, keepdims=True)
        variance = np.einsum("ij,ij->i", hidden, hidden)[:, None] / hidden.shape[1]
        hidden /= np.sqrt(variance + _EPSILON)
        hidden *= self.weight
        hidden += self.bias


class _Layer:
    def __init__(self, tensors: Mapping[str, Array], prefix: str) -> None:
        import numpy as np

        query, key, value = (
            _Linear.of(tensors, f"{prefix}attention.self.{part}") for part in ("query", "key", "value")
        )
        scale = np.float32((query.weight.shape[1] // _N_HEADS) ** -0.5)
        weight = np.concatenate([query.weight * scale, key.weight, value.weight], axis=1)
        self._query_key_value = _Linear(weight, np.concatenate([query.bias * scale, key.bias, value.bias]))
        self._mix = _Linear.of(tensors, f"{prefix}attention.output.dense")
        self._widen = _Linear.of(tensors, f"{prefix}intermediate.dense")
        self._narrow = _Linear.of(tensors, f"{prefix}output.dense")
        self._norm_attended = _Norm.of(tensors, f"{prefix}attention.output.LayerNorm")
        self._norm_fed = _Norm.of(tensors, f"{prefix}output.LayerNorm")

    def apply(self, hidden: Array, spans: Sequence[slice]) -> None:
        """Make the next hidden states of the last, in place.

        Args:
            hidden: (n_tokens, width)
            spans: where each text stands in them.
        """
        hidden += self._mix(self._attend(hidden, spans))
        self._norm_attended.apply(hidden)
        wide = self._widen(hidden)
        for start in range(0, len(wide), _N_ROWS):
            _gelu(wide[start : start + _N_ROWS])
        hidden += self._narrow(wide)
        self._norm_fed.apply(hidden)

    def _attend(self, hidden: Array, spans: Sequence[slice]) -> Array:
        """Return for each token the values of its own text's tokens, mixed by attention: (n_tokens, width)."""
        import numpy as np

        n_tokens, width = hidden.shape
        heads = self._query_key_value(hidden).reshape(n_tokens, 3, _N_HEADS, -1)
        mixed = np.empty((n_tokens, _N_HEADS, width // _N_HEADS), dtype=np.float32)
        for span in spans:
            query, key, value = heads[span].transpose(1, 2, 0, 3)
            # A row a key: what is taken over keys goes through rows one after another, twice as fast as within them.
            attention = key @ query.swapaxes(-1, -2)
            attention -= attention.max(axis=1, keepdims=True)
            np.exp(attention, out=attention)
            values = attention.swapaxes(-1, -2) @ value
            values /= attention.sum(axis=1)[:, :, None]
            mixed[span] = values.swapaxes(0, 1)
        return mixed.reshape(n_tokens, width)


def _gelu(x: Array) -> None:
    """Put numbers through the Gaussian error linear unit, in place, by its tanh form: off by less than 5e-4.

    Source: Hendrycks & Gimpel 2016, Gaussian Error Linear Units.
    """
    import numpy as np

    y = x * x
    y *= np.float32(0.044715 * 0.7978845608028654)
    y += np.float32(0.7978845608028654)
    y *= x
    np.tanh(y, out=y)
    y += 1
    y *= np.float32(0.5)
    x *= y
