"""What each caller was last listed: callers differ in what components' own `auth` checks admit them to."""

from __future__ import annotations

from hashlib import blake2b
from weakref import WeakValueDictionary

from fastmcp.server.dependencies import get_access_token

from agent_utilities.catalog.model import Catalog, ComponentKind
from agent_utilities.mcp.fastmcp_internals import is_over_stdio
from agent_utilities.runtime.caches import BoundedCache

CATALOGS_BYTES = 4 << 20
"""What the catalogs of callers may take together, beside the entries that they share."""

NOBODY = ""
"""The caller without a token: what they are listed is everybody's to know."""


def caller_key() -> str:
    """Return what tells the present caller from others, as far as FastMCP's `auth` checks do: the token, hashed.

    Over stdio there is one caller, whom no check holds.
    """
    if is_over_stdio():
        return "stdio"
    token = get_access_token()
    return NOBODY if token is None else blake2b(token.token.encode(), digest_size=16).hexdigest()


class CallerCatalogs:
    """The catalog of the last whole listing of each kind, by caller; those of callers long gone are forgotten."""

    def __init__(self) -> None:
        self._catalogs: BoundedCache[tuple[str, ComponentKind], Catalog] = BoundedCache(CATALOGS_BYTES, weigh_catalog)
        self._by_digest: WeakValueDictionary[str, Catalog] = WeakValueDictionary()

    def of_caller(self, kind: ComponentKind, caller: str | None = None) -> Catalog | None:
        """Return the catalog that a caller was last listed, the present one by default; None where it is not known."""
        return self._catalogs.get((caller_key() if caller is None else caller, kind))

    def keep(self, kind: ComponentKind, catalog: Catalog) -> None:
        """Take a catalog that the present caller was just listed; equal ones are kept once."""
        self._catalogs.keep((caller_key(), kind), self._by_digest.setdefault(catalog.digest, catalog))

    def all(self) -> list[Catalog]:
        """Return what all callers were listed, of all kinds; each catalog once."""
        return list(self._by_digest.values())

    def forget(self) -> None:
        """Forget them all: components changed, so that each caller is listed anew when it is next asked."""
        self._catalogs.clear()

    @property
    def weight(self) -> float:
        """About how many bytes are held."""
        return self._catalogs.weight


def weigh_catalog(key: tuple[str, ComponentKind], catalog: Catalog) -> int:
    """Return about how many bytes a caller's catalog takes, beside the entries that it shares."""
    return 500 + 8 * len(catalog)
