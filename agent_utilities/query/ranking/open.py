"""Opens rankers and providers of vectors, by name or by the operator's settings; each imports what it needs then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.errors import InputError, RankerError, SettingsError
from agent_utilities.query.ranking.arrays import Vectors, np
from agent_utilities.query.ranking.embedding import Provider, TextRole
from agent_utilities.query.ranking.minilm import INSTALL, N_MEGABYTES, model_folder
from agent_utilities.runtime.process_io import own_folder
from agent_utilities.settings import Settings

if TYPE_CHECKING:
    from agent_utilities.query.ranking.hybrid import HybridRanker
    from agent_utilities.query.ranking.lexical import LexicalRanker


def open_ranker(kind: str, provider: str = "minilm", cache: Path | None = None) -> LexicalRanker | HybridRanker:
    """Return a lexical, embedding or hybrid ranker; a model is loaded for its first index.

    Args:
        provider: of vectors; see `open_provider`.
        cache: the file where vectors are kept between processes, or None.

    Raises:
        InputError: no such ranker or provider.
    """
    if kind == "lexical":
        from agent_utilities.query.ranking.lexical import LexicalRanker

        return LexicalRanker()
    if kind not in ("embedding", "hybrid"):
        raise InputError("no such ranker", kind, "ranker", "give lexical, embedding or hybrid")
    return open_hybrid(kind, provider, cache)


def open_hybrid(kind: str, provider: str, cache: Path | None) -> HybridRanker:
    """Return a ranker that embeds; others may share its embedder."""
    from agent_utilities.query.ranking.hybrid import LEXICAL_WEIGHT, HybridRanker
    from agent_utilities.query.ranking.vector_store import VectorStore

    check_provider(provider)
    store = VectorStore(cache) if cache else None
    return HybridRanker(lambda: open_provider(provider), store, LEXICAL_WEIGHT if kind == "hybrid" else 0.0)


def check_provider(text: str) -> None:
    """Raise `InputError` for an unknown provider."""
    name = text.partition(":")[0]
    if name in ("http", "https"):
        if not text.partition("#")[2]:
            hint = "write it as http://127.0.0.1:11434/v1#all-minilm"
            raise InputError("an endpoint without a model", text, "provider", hint)
    elif text != "minilm" and name != "fastembed":
        raise InputError("no such provider", text, "provider", "give minilm, fastembed[:model] or an endpoint's URL")


def open_provider(text: str) -> Provider:
    """Return a provider: `minilm`, `fastembed`, `fastembed:MODEL`, or the URL of an endpoint as `URL#MODEL`.

    An unknown one raises `InputError`, an unavailable one `RankerError`.
    """
    check_provider(text)
    name, _, model = text.partition(":")
    if name == "minilm":
        from agent_utilities.query.ranking.minilm import MiniLM

        return MiniLM()
    if name == "fastembed":
        return FastEmbed(model or FASTEMBED_MODEL)
    from agent_utilities.query.ranking.endpoint import Endpoint

    url, _, model = text.partition("#")
    return Endpoint(url, model)


FASTEMBED_MODEL = "BAAI/bge-small-en-v1.5"


class FastEmbed:
    """A model of the `fastembed` library, on ONNX, downloaded once; without a network that fails after 39 s."""

    claim_distance: float = 0.0

    def __init__(self, model: str) -> None:
        self.name = f"fastembed:{model}"
        try:
            self._model = import_module("fastembed").TextEmbedding(model_name=model)
        except ImportError:
            raise RankerError("fastembed is absent; install fastembed beside this package") from None
        except Exception as error:  # whatever a download raises
            raise RankerError(f"{model!r} can't be loaded: {error}") from None

    def embed(self, texts: Sequence[str], role: TextRole) -> Vectors:
        """Return one vector for each text, in order."""
        embed = self._model.passage_embed if role == "document" else self._model.query_embed
        try:
            return np.array(list(embed(list(texts))), dtype=np.float32)
        except Exception as error:  # whatever the runtime raises
            raise RankerError(f"{self.name!r} can't embed: {error}") from None


WITHOUT_MODEL = f"ranked by words alone; `{INSTALL}` ({N_MEGABYTES} MB, on the server) ranks by meaning too"
"""The hint for operators and callers where no model is installed."""


@dataclass(frozen=True, slots=True)
class Rankers:
    """The rankers of a server beside words, where ranking is on; tools and capabilities share them."""

    by_meaning: HybridRanker | None = None
    is_off: bool = False
    lacks_model: bool = False
    """Whether there are words alone only because no model is installed."""


def open_rankers(settings: Settings) -> Rankers:
    """Return the rankers that the settings configure; no model is loaded yet."""
    if settings.embeddings:
        try:
            check_provider(settings.embeddings)
        except InputError as error:
            raise SettingsError(error.what, settings.embeddings, "env MCP_EMBEDDINGS", error.hint) from None
    if settings.ranker == "off":
        return Rankers(is_off=True)
    provider = settings.embeddings or ("minilm" if has_minilm() else "")
    if settings.ranker == "lexical" or (settings.ranker == "auto" and not provider):
        return Rankers(lacks_model=settings.ranker == "auto")
    kind = "hybrid" if settings.ranker == "auto" else settings.ranker
    folder = Path(settings.graph_folder) if settings.graph_folder else own_folder("cache")
    return Rankers(open_hybrid(kind, provider or "minilm", folder / "vectors.db"))


def has_minilm() -> bool:
    """Whether the offline model is installed, looked up without importing anything."""
    return model_folder() is not None
