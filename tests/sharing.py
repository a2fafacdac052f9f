"""Which tests run in one process where several run the tests, and in which order they are given out."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # xdist has no types

FOLDERS = ("tests/query/graph/",)
"""Folders whose tests share a server over all their files which takes long to start: Neo4j."""
_LONG = ("tests/query/graph/", "tests/wire/")
"""Folders of which few tests take minutes."""
_USUAL_S = 300
"""The limit of a test that has none of its own."""


def scope_of(nodeid: str) -> str:
    """Return what of the tests one process runs: a file, or a folder whose files share servers."""
    return next((folder for folder in FOLDERS if nodeid.startswith(folder)), nodeid.partition("::")[0])


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return tests as they are to be given out, those of one scope as they were among themselves.

    First come those whose own limit, or whose folder, lets them take long, then the largest scopes: nobody is to wait
    in the end for one process that was given few tests of a minute each.
    """
    n_tests, limits_s = Counter[str](), dict[str, float]()
    items = sorted(
        items, key=lambda item: item.nodeid.partition("::")[0]
    )  # each process collects in an order of its own
    for item in items:
        scope, limit = scope_of(item.nodeid), item.get_closest_marker("timeout")
        n_tests[scope] += 1
        if limit is not None and item.get_closest_marker("nightly") is None:
            limits_s[scope] = max(limits_s.get(scope, 0), *limit.args)
    return sorted(items, key=lambda item: _rank(scope_of(item.nodeid), n_tests, limits_s))


def folders_from(root: Path, n: int, of_n: int) -> list[str]:
    """Return all folders of tests, beginning with the share of one of several processes.

    What one process has compiled the others read: they do not all compile the same at once, where nothing is compiled.
    """
    every = [*sorted(each for each in root.glob("tests/*/") if any(each.rglob("test_*.py"))), root / "agents"]
    n_files = list(accumulate(len(list(folder.rglob("test_*.py"))) for folder in every))
    start = bisect(n_files, n_files[-1] * n // of_n)
    return [str(folder) for folder in (*every[start:], *every[:start])]


def _rank(scope: str, n_tests: Counter[str], limits_s: dict[str, float]) -> tuple[bool, int]:
    is_long = scope.startswith(_LONG) or limits_s.get(scope, 0) > _USUAL_S
    return not is_long, -n_tests[scope]


class BySharedServers(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a process whole scopes, in the order in which they were collected."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False  # see `in_order`
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)
