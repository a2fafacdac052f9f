"""What every test has: the nightly switch, Hypothesis profiles, one async backend, and a clean environment."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# Examples for each law: together at least 5,000 in every run, and 100,000 at night.
settings.register_profile("ci", max_examples=700, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("nightly", max_examples=7_500, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="also run long soaks and 100,000-case runs")


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("nightly" if config.getoption("--nightly") else "ci")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="nightly only: run with --nightly")
    for item in items:
        if "nightly" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No selection of the machine that runs the tests may leak into them."""
    for name in [name for name in os.environ if name.startswith("MCP_")]:
        monkeypatch.delenv(name)
    # Whether a model is installed must not change what other tests see.
    monkeypatch.setenv("MCP_RANKER", "lexical")
