"""Train the adapter of the offline model, on one processor: the same bytes on the same machine and versions.

    python training/adapter.py                  # three seeds, a few minutes each
    python training/adapter.py --seeds 0 --out adapter.safetensors
    python training/adapter.py --packages DIR   # where wheels are kept; by default in the user's cache

The texts are downloaded first, see `training/texts.py`. Needs the dependency group `train`.

Source: Hu et al. 2021, LoRA; Henderson et al. 2017, Efficient Natural Language Response Suggestion (each batch's other
tools are what a request's own is told apart from).
"""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = (
    "--xla_cpu_multi_thread_eigen=false"  # a sum's order, and so its last digit, is that of threads
)

import argparse
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
from platformdirs import user_cache_path

from agent_utilities.query.ranking import minilm
from agent_utilities.query.ranking.minilm import WordPieces
from training import texts
from training.texts import Asked

RANK = 8
SCALE = 2.0
STEPS = 250
LEARNING_RATE = 1e-3
N_PAIRS = 48
N_OF_GROUP = 12
"""So many pairs of a batch are of one group, to be told apart."""
SHARPNESS = 20.0
N_GROUP_TOOLS = 300
MIN_GROUP_TOOLS = 4
BOOST = {"functions": 8.0}
"""Of how often groups are drawn: functions are few, and asked for as people ask."""
SHAPES = ((48, 24), (24, 32), (24, 48))
"""How many of a batch's texts, the shortest first, are read to how many word pieces: all to the most would take two
fifths longer."""
JOINED = 0.2
"""Of the requests, those that ask for another group's tool too."""
JOINS = (" and ", " and then ", ", then ", " and also ", ". Also, ", ", and ", ". ", " as well as ", " after that ")
PREFIXES = [""] * 13 + ["please ", "can you ", "I want to ", "I need to ", "how do I ", "help me ", "could you "]
_N_HEADS, _N_LAYERS = 12, 6
_END_TOKEN = 102
PARTS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "intermediate.dense",
    "output.dense",
)
Adapter = dict[str, tuple[Any, Any]]


def encode(weights: Mapping[str, Any], adapter: Adapter, ids: Any, mask: Any) -> Any:
    """Return vectors of unit length, as `minilm.Bert` does with the adapter merged: (n_texts, width)."""

    def linear(x: Any, name: str) -> Any:
        narrow, wide = adapter[name]
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"] + (x @ narrow) @ wide * SCALE

    def norm(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return (
            x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-12) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        )

    n, length = ids.shape
    positions = weights["embeddings.position_embeddings.weight"][:length]
    x = weights["embeddings.word_embeddings.weight"][ids] + positions
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    hidden_from = ((1 - mask) * -1e9)[:, None, None, :]
    for layer in range(_N_LAYERS):
        of = partial("encoder.layer.{}.{}".format, layer)
        query, key, value = (
            linear(x, of(part)).reshape(n, length, _N_HEADS, -1).transpose(0, 2, 1, 3) for part in PARTS[:3]
        )
        attention = query @ key.transpose(0, 1, 3, 2) * query.shape[-1] ** -0.5 + hidden_from
        mixed = (jax.nn.softmax(attention, -1) @ value).transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(x + linear(mixed, of(PARTS[3])), of("attention.output.LayerNorm"))
        x = norm(x + linear(jax.nn.gelu(linear(x, of(PARTS[4]))), of(PARTS[5])), of("output.LayerNorm"))
    means = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
    return means / jnp.linalg.norm(means, axis=1, keepdims=True)


def loss(adapter: Adapter, weights: Mapping[str, Any], texts: Any, places: Any, same: Any) -> Any:
    """Return how badly each request finds its own document among the batch's, and each document its request."""
    vectors = jnp.concatenate([encode(weights, adapter, ids, mask) for ids, mask in texts])[places]
    scores = SHARPNESS * vectors[:N_PAIRS] @ vectors[N_PAIRS:].T - 1e4 * same
    own = jnp.arange(N_PAIRS)
    return -(jax.nn.log_softmax(scores, 1)[own, own] + jax.nn.log_softmax(scores, 0)[own, own]).mean() / 2


def update(state: Any, gradient: Any, step: Any, rate: Any) -> Any:
    """Return the next adapter and its moments. Source: Loshchilov & Hutter 2017, AdamW."""
    over = jax.tree_util.tree_map
    adapter, first, second = state
    first = over(lambda m, g: 0.9 * m + 0.1 * g, first, gradient)
    second = over(lambda m, g: 0.999 * m + 0.001 * g * g, second, gradient)

    def moved(p: Any, m: Any, v: Any) -> Any:
        return p - rate * (m / (1 - 0.9**step) / (jnp.sqrt(v / (1 - 0.999**step)) + 1e-8) + 0.01 * p)

    return over(moved, adapter, first, second), first, second


class Batches:
    """Pairs of requests and documents: a few groups a batch, so that tools are told apart from those like them."""

    def __init__(self, tools: Sequence[Asked], pieces: WordPieces, seed: int) -> None:
        self._random = Random(seed)
        self._pieces = pieces
        groups: defaultdict[str, list[Asked]] = defaultdict(list)
        for each in tools:
            groups[each.group].append(each)
        self._groups = [
            self._random.sample(group, min(len(group), N_GROUP_TOOLS))
            for group in groups.values()
            if len(group) >= MIN_GROUP_TOOLS
        ]
        sizes = [min(len(group), 120) for group in self._groups]
        self._weights = [
            size * BOOST.get(group[0].group.partition(".")[0], 1.0)
            for size, group in zip(sizes, self._groups, strict=True)
        ]

    def next(self) -> tuple[Any, Any, Any]:
        """Return the batch's texts, by length: token ids and masks; where the requests and then their documents are
        among them; and which documents may not count as wrong for which requests.
        """
        drawn: list[Asked] = []
        while len(drawn) < N_PAIRS:
            group = self._random.choices(self._groups, self._weights)[0]
            drawn += self._random.sample(group, min(N_OF_GROUP, len(group), N_PAIRS - len(drawn)))
        requests, documents = [self._request(each) for each in drawn], [self._document(each) for each in drawn]
        keys = [(each.group, each.document.name) for each in drawn]
        same = np.zeros((N_PAIRS, N_PAIRS), np.float32)
        for side in (requests, documents, keys):
            same += np.array([[a == b for b in side] for a in side])
        joined = list(requests)
        for place, each in enumerate(drawn):
            others = [other for other, asked in enumerate(drawn) if asked.group != each.group]
            if others and self._random.random() < JOINED:
                other = self._random.choice(others)
                both = [requests[place], requests[other]]
                self._random.shuffle(both)
                joined[place] = self._random.choice(JOINS).join(both)
                same[place] += same[other]
        same = np.minimum(same, 1)
        np.fill_diagonal(same, 0)
        return *self._by_length([*joined, *documents]), same

    def _request(self, asked: Asked) -> str:
        text = self._random.choice(asked.requests).rstrip(".")
        prefix = self._random.choice(PREFIXES)
        if prefix or self._random.random() < 0.4:
            text = text[0].lower() + text[1:]
        return prefix + text

    def _document(self, asked: Asked) -> str:
        aspects = asked.document.aspects()
        return aspects[self._random.choices(["first_sentence", "whole", "name"], [0.5, 0.35, 0.15])[0]]

    def _by_length(self, strings: Sequence[str]) -> tuple[Any, Any]:
        encoded = list(map(self._pieces.numbers, strings))
        order = np.array(sorted(range(len(encoded)), key=lambda place: len(encoded[place])))
        texts, start = [], 0
        for n, length in SHAPES:
            ids, mask = np.zeros((n, length), np.int32), np.zeros((n, length), np.float32)
            for row, place in enumerate(order[start : start + n]):
                numbers = encoded[place]
                if len(numbers) > length:
                    numbers = [*numbers[: length - 1], _END_TOKEN]
                ids[row, : len(numbers)], mask[row, : len(numbers)] = numbers, 1
            texts.append((ids, mask))
            start += n
        return texts, np.argsort(order)


def train(tools: Sequence[Asked], seed: int) -> dict[str, Any]:
    """Return what is to be added to the weights, as two factors each, by name."""
    if (folder := minilm.model_folder()) is None:
        sys.exit(f"the model is absent; run: {minilm.INSTALL}")
    weights = {name: jnp.array(each) for name, each in minilm.tensors(minilm.known_weights(folder)).items()}
    vocabulary = (folder / minilm.VOCABULARY).read_text(encoding="utf-8").splitlines()
    batches = Batches(tools, WordPieces(vocabulary, minilm.MAX_TOKENS), seed)
    random = np.random.default_rng(seed)
    adapter: Adapter = {}
    for layer in range(_N_LAYERS):
        for part in PARTS:
            name = f"encoder.layer.{layer}.{part}"
            n_out, n_in = weights[f"{name}.weight"].shape
            narrow = random.normal(0, n_in**-0.5, (n_in, RANK)).astype(np.float32)
            adapter[name] = (jnp.array(narrow), jnp.zeros((RANK, n_out), jnp.float32))
    zeros = jax.tree_util.tree_map(jnp.zeros_like, adapter)
    state, gradient_of, next_state = (adapter, zeros, zeros), jax.jit(jax.value_and_grad(loss)), jax.jit(update)
    losses = []
    for step in range(1, STEPS + 1):
        value, gradient = gradient_of(state[0], weights, *batches.next())
        rate = LEARNING_RATE * min(1, step / 40) * max(0.05, 1 - step / STEPS)
        state = next_state(state, gradient, float(step), rate)
        losses.append(float(value))
        if step % 50 == 0:
            print(f"seed {seed}, step {step}: loss {np.mean(losses[-50:]):.4f}", flush=True)
    learned = {}
    for name, (narrow, wide) in state[0].items():
        learned[f"{name}.narrow"] = np.array(narrow)
        learned[f"{name}.wide"] = np.array(wide) * SCALE
    return learned


def written(tensors: Mapping[str, Any]) -> bytes:
    """Return tensors as the bytes of a safetensors file, of halves."""
    header, content = {}, b""
    for name, tensor in sorted(tensors.items()):
        part = tensor.astype("<f2").tobytes()
        header[name] = {"dtype": "F16", "shape": tensor.shape, "data_offsets": [len(content), len(content) + len(part)]}
        content += part
    told = json.dumps(header, separators=(",", ":")).encode()
    told += b" " * (-len(told) % 8)
    return len(told).to_bytes(8, "little") + told + content


def main() -> None:
    """Train with each seed, and write each adapter with its hash."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("adapters"), help="the folder that adapters are written to")
    parser.add_argument("--packages", type=Path, default=user_cache_path("agent-utilities") / "training")
    given = parser.parse_args()
    tools = texts.read(texts.fetch(given.packages))
    print(f"{len(tools):,} tools, {sum(len(each.requests) for each in tools):,} requests", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    for seed in given.seeds:
        content = written(train(tools, seed))
        path = given.out / f"adapter-{seed}.safetensors"
        path.write_bytes(content)
        print(path, hashlib.sha256(content).hexdigest(), flush=True)


if __name__ == "__main__":
    main()
