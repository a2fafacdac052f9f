"""Models of the `fastembed` library, on ONNX."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import httpx2

from agent_utilities.errors import RankerError
from agent_utilities.ranking.arrays import Vectors, np
from agent_utilities.ranking.embedding import TextRole

MODEL = "BAAI/bge-small-en-v1.5"
_HUB = "https://huggingface.co"
_REACH_TIMEOUT_S = 3.0


class FastEmbed:
    """A provider that downloads its model once.

    Raises:
        RankerError: fastembed is absent, or the model can't be had. Without a network that takes seconds: the
            library itself would try again for 39 s.
    """

    claim_distance: float = 0.0

    def __init__(self, model: str = MODEL) -> None:
        self.name = f"fastembed:{model}"
        try:
            library = import_module("fastembed")
        except ImportError:
            raise RankerError("fastembed is absent; install agent-utilities[fastembed]") from None
        known = {entry["model"].casefold(): entry for entry in library.TextEmbedding.list_supported_models()}
        if model.casefold() not in known:
            raise RankerError(f"fastembed knows no model {model!r}")
        with _library_log_off():
            self._model = _open_model(library, model, known[model.casefold()].get("sources") or {})

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector a text, in order."""
        embed = self._model.query_embed if role == "query" else self._model.passage_embed
        try:
            return np.array(list(embed(list(texts))), dtype=np.float32)
        except Exception as error:  # whatever the runtime raises
            raise RankerError(f"{self.name!r} can't embed: {error}") from None


def _open_model(library: Any, model: str, sources: Mapping[str, str | None]) -> Any:
    """Return a model from what is on disk, or downloaded where its source can be reached.

    Raises:
        RankerError: it can't be had.
    """
    try:
        return library.TextEmbedding(model_name=model, local_files_only=True)
    except Exception:  # it is absent or damaged, which the download mends
        pass
    hub = os.environ.get("HF_ENDPOINT") or _HUB
    addresses = [address for address in (hub if sources.get("hf") else None, sources.get("url")) if address]
    causes = [cause for cause in map(_unreachable, addresses) if cause]
    if len(causes) == len(addresses):
        raise RankerError(f"{model!r} is not on disk and can't be downloaded: {'; '.join(causes) or 'no source'}")
    try:
        return library.TextEmbedding(model_name=model)
    except Exception as error:  # whatever a download raises
        raise RankerError(f"{model!r} can't be loaded: {error}") from None


def _unreachable(address: str) -> str:
    """Return why nothing answers at an address; empty where something does, whatever it says."""
    try:
        httpx2.head(address, timeout=_REACH_TIMEOUT_S)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return f"{address}: {error or type(error).__name__}"
    return ""


@contextmanager
def _library_log_off() -> Iterator[None]:
    """Keep the library from printing errors that are returned as causes."""
    try:
        logger = import_module("loguru").logger
    except ImportError:
        yield
        return
    logger.disable("fastembed")
    try:
        yield
    finally:
        logger.enable("fastembed")
