"""Nobody is kept out: axe finds nothing on any page, in light and dark, at any width, and nothing moves as it loads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.every import every
from tests.page.browser import Visit, axe_violations, visiting
from tests.page.serving import Gateway

pytestmark = pytest.mark.outside
BEHIND = ("notes", "office")
SCHEMES = ("light", "dark")
WIDTHS = (360, 1280, 2560)
_SHIFTS = """window.shifted = [];
new PerformanceObserver((list) => {
  for (const each of list.getEntries())
    window.shifted.push(...each.sources.map(({node}) => node?.outerHTML?.slice(0, 120) ?? node?.data ?? "?"));
}).observe({type: "layout-shift", buffered: true});"""
_AT_REST = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_OVERFLOWS = """() => document.documentElement.scrollWidth > document.documentElement.clientWidth
  ? [...document.querySelectorAll("main *, header *, footer *")]
      .filter((each) => each.getBoundingClientRect().right > innerWidth && !each.parentElement.closest(".scroll"))
      .map((each) => each.outerHTML.slice(0, 120))
  : []"""


@pytest.fixture(scope="module")
def paths(browser: Browser, gateway: Gateway) -> dict[str, str]:
    """Every panel and all other kinds of pages, with something on each; the name of each by its path."""
    gateway.call("notes_echo", text="hello")
    gateway.call("notes_fail", text="it failed")
    gateway.listed({"x-mcp-query": "what broke after the deploy?"})
    with visiting(browser, gateway.link) as visit:
        panels = visit.page.locator("nav a").evaluate_all("(all) => all.map((each) => each.getAttribute('href'))")
        assert len(panels) >= 3
    more = (
        "/page/surface?tools=git_*&read_only=true",
        "/page/tool?named=notes_echo",
        "/page/words?q=create+an+invoice",
        "/page/calls?failed=true",
        "/page/nothing",
    )
    return {path: path for path in (*panels, *more)}


@pytest.fixture(scope="module")
def looks(browser: Browser, gateway: Gateway) -> Iterator[dict[str, Visit]]:
    """A visit in each colour scheme."""
    with (
        visiting(browser, gateway.link, color_scheme="light", expected=_is_not_found) as light,
        visiting(browser, gateway.link, color_scheme="dark", expected=_is_not_found) as dark,
    ):
        for visit in (light, dark):
            visit.page.add_init_script(_SHIFTS)
        yield {"light": light, "dark": dark}


def _is_not_found(complaint: str) -> bool:
    return "404" in complaint


class TestEveryPage:
    @every("scheme", SCHEMES)
    def test_breaks_no_rule(
        self, looks: dict[str, Visit], paths: dict[str, str], gateway: Gateway, scheme: str
    ) -> None:
        page = looks[scheme].page
        found = {}
        for path in paths:
            page.goto(f"{gateway.url}{path}")
            page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            found[path] = axe_violations(page)
        assert found == {path: [] for path in paths}

    @every("scheme", SCHEMES)
    def test_that_asks_or_tells_of_a_failure_breaks_none(
        self, looks: dict[str, Visit], paths: dict[str, str], gateway: Gateway, scheme: str
    ) -> None:
        page = looks[scheme].page
        page.goto(f"{gateway.url}/page/tool?named=notes_fail")
        page.get_by_label("text").fill("the disk is full")
        found = []
        for button in ("Call", "Call it"):
            page.get_by_role("button", name=button, exact=True).click()
            page.wait_for_load_state()
            found.append(axe_violations(page))
        assert page.locator(".outcome.failed").count() == 1
        page.goto(f"{gateway.url}/page/surface?disabled_tools=notes_ehco")
        assert page.locator("[aria-invalid=true]").count() == 1
        assert [*found, axe_violations(page)] == [[], [], []]

    @every("width", WIDTHS)
    def test_is_no_wider_than_the_window_and_moves_nothing(
        self, looks: dict[str, Visit], paths: dict[str, str], gateway: Gateway, width: int
    ) -> None:
        page = looks["light"].page
        page.set_viewport_size({"width": width, "height": 900})
        found = {}
        for path in paths:
            for _ in range(3):  # on a busy machine a long table is drawn before all of it is read
                page.goto(f"{gateway.url}{path}")
                page.evaluate(_AT_REST)
                found[path] = page.evaluate(_OVERFLOWS), page.evaluate("() => window.shifted")
                if found[path] == ([], []):
                    break
        page.set_viewport_size({"width": 1280, "height": 720})
        assert found == {path: ([], []) for path in paths}

    def test_has_the_colours_that_were_asked_for(self, looks: dict[str, Visit], gateway: Gateway) -> None:
        colours = {}
        for scheme, visit in looks.items():
            visit.page.goto(gateway.url)
            colours[scheme] = visit.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert colours["light"] != colours["dark"]


def test_who_is_not_let_in_finds_no_barrier_either(browser: Browser, gateway: Gateway) -> None:
    with visiting(browser, gateway.url, expected=lambda complaint: "401" in complaint) as visit:
        assert axe_violations(visit.page) == []
