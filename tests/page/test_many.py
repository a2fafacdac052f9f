"""A thousand tools, measured; and, at night, twenty browsers for ten minutes, with flat memory."""

from __future__ import annotations

import itertools
import statistics
import time
from contextlib import ExitStack

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.page import serving
from tests.page.browser import PATIENCE_MS, visiting

pytestmark = pytest.mark.outside
N_CONTEXTS, SOAK_S, WARM_S = 20, 600.0, 180.0
MOST_GROWTH_MIB = 8.0
"""What allocation alone may add in seven minutes; a page kept for each view would add hundreds."""
_MEASURE = """() => {
  window.took = [];
  let began = 0;
  addEventListener("input", () => { began = performance.now(); }, true);
  const every = {subtree: true, childList: true, attributes: true, characterData: true};
  new MutationObserver(() => requestAnimationFrame(() => window.took.push(performance.now() - began)))
    .observe(document.getElementById("result"), every);
}"""
PANELS = (
    "/",
    "/page/surface?tools=git_*",
    "/page/prompt",
    "/page/servers",
    "/page/calls",
    "/page/usage",
    "/page/words?q=log",
)


def test_a_thousand_tools(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving.gateway(tmp_path_factory.mktemp("many"), ["many"]) as gateway:
        gateway.listed()
        with visiting(browser, gateway.link) as visit:
            visit.page.goto(f"{gateway.url}/page/surface")
            visit.page.wait_for_function("() => document.querySelectorAll('tbody tr').length > 1_000")
            visit.page.evaluate(_MEASURE)
            for n, letter in enumerate("many_tool_0012", 1):
                visit.page.get_by_label("tools", exact=True).press_sequentially(letter)
                visit.page.wait_for_function("(n) => window.took.length >= n", arg=n)
            took_ms: list[float] = visit.page.evaluate("() => window.took")
    with capsys.disabled():
        median, worst = statistics.median(took_ms), max(took_ms)
        print(f"\n1,000 tools, from a letter typed to what it changes: {median:.0f} ms, {worst:.0f} at most")


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_memory_is_flat(browser: Browser, gateway: serving.Gateway) -> None:
    """Twenty people look, type and listen, while tools are called."""
    rss_mib: dict[float, float] = {}
    process, began = psutil.Process(gateway.process.process.pid), time.monotonic()
    with ExitStack() as stack:
        pages = [
            stack.enter_context(visiting(browser, gateway.link, expected=lambda complaint: "404" in complaint)).page
            for _ in range(N_CONTEXTS)
        ]
        for n in itertools.count():
            if (now := time.monotonic() - began) > SOAK_S:
                break
            _look(pages[n % N_CONTEXTS], gateway.url, n)
            if n % N_CONTEXTS == 0:
                gateway.call("notes_echo", text=f"{n}")
                rss_mib[now] = process.memory_info().rss / 2**20
    warm = [mib for at, mib in rss_mib.items() if at >= WARM_S]
    third = len(warm) // 3
    assert third >= 3, rss_mib
    assert statistics.median(warm[-third:]) - statistics.median(warm[:third]) < MOST_GROWTH_MIB, rss_mib


def _look(page: Page, url: str, n: int) -> None:
    page.goto(f"{url}{PANELS[n // N_CONTEXTS % len(PANELS)]}")
    if page.get_by_label("tools", exact=True).count():
        page.get_by_label("tools", exact=True).fill(f"git_*,tool_{n}")
        expect(page.locator("#result")).to_contain_text("12 tools visible", timeout=PATIENCE_MS)
