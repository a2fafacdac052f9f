"""Paths of before rooms were named by subject lead to the very same modules, with a warning."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib import import_module

import pytest

from tests.every import every

PLACES = {
    "graph.base": "query.graph.base",
    "mcp.feature": "seam.feature",
    "mcp.request": "seam.request",
    "ranking.lexical": "query.ranking.lexical",
    "ranking.terms": "catalog.words",
    "router.tool_router": "search.tool_router",
    "upstream.configuration.config_files": "gateway.upstreams.configuration.config_files",
    "visibility.bounds": "policy.bounds",
}


@every(("old", "new"), list(PLACES.items()))
def test_an_old_path_leads_to_the_same_module(old: str, new: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = import_module(f"agent_utilities.{old}")
    assert f"agent_utilities.{old} is agent_utilities.{new} now" in str(told[-1].message)
    assert found is import_module(f"agent_utilities.{new}")
    assert found.__spec__ is not None
    assert found.__spec__.name == f"agent_utilities.{new}"


@pytest.mark.outside
def test_in_a_new_process_a_public_name_is_the_same_by_its_old_path() -> None:
    program = (
        "from agent_utilities.mcp.feature import Feature as old; from agent_utilities import *; print(old is Feature)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_a_path_that_never_was_is_refused() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"agent_utilities\.nowhere"):
        import_module("agent_utilities.nowhere")
