"""The revision: a short name of the surface that a list or a call was made under."""

from __future__ import annotations

from hashlib import blake2b

from agent_utilities.catalog.model import Catalog
from agent_utilities.selection.merge import Effective
from agent_utilities.visibility.preferences import Preferences


def revision(catalog: Catalog, effective: Effective, preferences: Preferences) -> str:
    """Return 12 hex digits over a catalog, the bounds that hold on it, and the preferences that were asked for.

    The answer to a query is not part of it: a call, which resolves none, is tied to the list that was made before.
    """
    parts = f"{catalog.digest}:{effective.bounds_digest}:{preferences.digest}"
    return blake2b(parts.encode(), digest_size=6).hexdigest()
