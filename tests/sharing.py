"""Which tests run in one process where several run the tests: those that share servers, which are started once."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # xdist has no types

FOLDERS = ("tests/graph/", "tests/wire/")
"""Folders whose tests share servers over all their files: Neo4j, and the bounded server."""


class BySharedServers(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a process whole files, and whole folders where their files share servers; the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in FOLDERS if nodeid.startswith(folder)), nodeid.partition("::")[0])
