"""What every test has: the suites to choose from, Hypothesis profiles, one async backend, and a clean environment."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import environment
from tests.architecture.report import HouseReport
from tests.ci import LeftToCI
from tests.fast import FastSuite
from tests.query.graph.report import GraphReport
from tests.warm_start import Program

# Examples for each law: the same ones in every run, together some 5,000, and at least 100,000 new ones at night.
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("fast", max_examples=50, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("nightly", max_examples=7_500, deadline=None, suppress_health_check=[HealthCheck.too_slow])

_NUMBERS = count()
_RUN = pytest.StashKey[environment.Run]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="also run long soaks and 100,000-case runs, and all of CI")
    parser.addoption("--all", action="store_true", help="also run what is left to CI, see tests/ci.py")
    parser.addoption("--behind-gateway", action="store_true", help="put a gateway before the servers that tests start")
    parser.addoption("--fast", action="store_true", help="run only what needs no socket and no process of its own")
    beside = "with --fast: also run what is marked `tasks` or `both_ends`"
    parser.addoption("--both-ends", action="store_true", help=beside)


def pytest_configure(config: pytest.Config) -> None:
    is_whole = config.args == config.getini("testpaths")
    if is_whole and not any(config.getoption(f"--{name}") for name in ("all", "fast", "nightly")):
        config.pluginmanager.register(LeftToCI(), "left-to-ci")
    if (worker := getattr(config, "workerinput", None)) is not None and is_whole:
        from tests.sharing import folders_from

        config.args = folders_from(config.rootpath, int(worker["workerid"].removeprefix("gw")), worker["workercount"])
    config.stash[_RUN] = environment.begin()
    subprocess.Popen = Program  # type: ignore[misc]
    config.pluginmanager.register(GraphReport(), "graph-report")
    config.pluginmanager.register(HouseReport(), "house-report")
    if config.getoption("--fast"):
        beside = ("tasks", "both_ends") if config.getoption("--both-ends") else ()
        config.pluginmanager.register(FastSuite(beside), "fast-suite")
    settings.load_profile(next((name for name in ("nightly", "fast") if config.getoption(f"--{name}")), "ci"))


def pytest_unconfigure(config: pytest.Config) -> None:
    subprocess.Popen = Program.__base__  # type: ignore[misc,assignment]
    if (run := config.stash.get(_RUN, None)) is not None:
        run.end()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave the garbage collector out while tests are collected, and what they are made of out of it from then on.

    Each process that runs tests collects them all; looking through what only grows takes it a quarter of that time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from tests.sharing import in_order

        items[:] = in_order(items)
    if find_spec("fastmcp_tasks") is None:
        absent = pytest.mark.skip(reason="fastmcp-tasks is not installed: `python3 tasks.py oldest` runs these")
        for item in items:
            if "tasks" in item.keywords:
                item.add_marker(absent)
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="nightly only: run with --nightly")
    for item in items:
        if "nightly" in item.keywords:
            item.add_marker(skip)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests that share servers in one process, where several run the tests; see `tests.sharing`."""
    from tests.sharing import BySharedServers

    return BySharedServers(config, log)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": find_spec("uvloop") is not None}  # as what is served


@pytest.fixture(autouse=True)
def _writes_nothing_of_the_users(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test after which something is found in the home's cache folder: all have a cache folder of the run."""
    strayed = request.config.stash[_RUN].strayed
    yield
    if strayed.exists():
        names = sorted(str(path.relative_to(strayed)) for path in strayed.rglob("*"))
        shutil.rmtree(strayed)
        pytest.fail(f"the user's cache folder was written to: {names}", pytrace=False)


@pytest.fixture(autouse=True)
def _has_state_of_its_own(request: pytest.FixtureRequest) -> Iterator[None]:
    """Give the test a state folder: gateways log calls there unasked, and no test may learn from another's calls."""
    state = request.config.stash[_RUN].state
    os.environ["XDG_STATE_HOME"] = str(state / str(next(_NUMBERS)))
    yield
    os.environ["XDG_STATE_HOME"] = str(state)
