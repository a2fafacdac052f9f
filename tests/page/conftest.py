"""One browser and one gateway for a module."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.page import serving
from tests.page.browser import Visit, Visiting, launched, visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that runs."""
    with launched() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[serving.Gateway]:
    """A gateway of five real servers, or of those that the module names in `BEHIND`, all of which have come."""
    behind = getattr(request.module, "BEHIND", serving.SERVERS)
    with serving.gateway(tmp_path_factory.mktemp("gateway"), behind) as held:
        assert {name.partition("_")[0] for name in held.listed(query="?tool_search=off")} == set(behind)
        yield held


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visiting]:
    """Opens a URL in a context of its own; what the browser complains of fails the test at its end."""
    with ExitStack() as stack:

        def opened(url: str, **context: Any) -> Visit:
            coming: AbstractContextManager[Visit] = visiting(browser, url, **context)
            return stack.enter_context(coming)

        yield opened
