"""The page in a real Chromium, as a person has it: what the browser complains of, or asks elsewhere, fails the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.conformance import node
from tests.debian import program

AXE = "4.14.1"
PATIENCE_MS = 20_000
"""After how long a test gives up; far more than anything here takes."""
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update")


def chromium() -> str:
    """Return the path of a Chromium: the one on PATH, else Debian's, installed where this user may."""
    return program("chromium", *_NAMES)


@cache
def axe() -> str:
    """Return the script of axe, which looks for what keeps people out."""
    return (node.installed("axe-core", AXE) / "axe.min.js").read_text(encoding="utf-8")


def axe_violations(page: Page) -> list[str]:
    """Return what axe finds wrong with a page as it is now: the rule, and where it is broken."""
    page.evaluate(axe())
    found = page.evaluate("async () => (await axe.run()).violations")
    return [f"{each['id']}: {node['html'][:200]}: {node['failureSummary']}" for each in found for node in each["nodes"]]


@contextmanager
def launched(*flags: str) -> Iterator[Browser]:
    """Run a browser for a block; none of it outlives the block.

    While it runs, no other event loop can run in this thread: what awaits is run in one of its own.
    """
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*_FLAGS, *flags])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """One page in a context of its own.

    Args:
        page: to look at and press.
        host: whom it may ask, as `127.0.0.1:8001`.
        expected: returns whether a complaint is what the test is about.
    """

    page: Page
    host: str
    expected: Callable[[str], bool] = lambda complaint: False
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.context.on("request", self._request)
        self.page.context.on("requestfailed", self._failed)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        self.asked.append(request.url)
        if urlsplit(request.url).netloc != self.host and not request.url.startswith(("data:", "blob:")):
            self.complaints.append(f"asked elsewhere: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # as what is asked for when its page is left
            self.complaints.append(f"failed: {request.method} {request.url}: {request.failure}")

    def close(self) -> None:
        """Leave the page.

        Raises:
            AssertionError: the browser complained of something that the test is not about.
        """
        self.page.context.close()
        left = [complaint for complaint in self.complaints if not self.expected(complaint)]
        if left:
            raise AssertionError("\n".join(left))


Visiting = Callable[..., Visit]
"""Goes to a URL, with options of the context."""


@contextmanager
def visiting(browser: Browser, url: str, **context: Any) -> Iterator[Visit]:
    """Give a page of a new context that has gone to a URL.

    Args:
        browser: which runs.
        url: where to go first.
        context: options of the context, such as `color_scheme`; `expected` and `host` are the visit's.
    """
    expected = context.pop("expected", lambda complaint: False)
    host = context.pop("host", urlsplit(url).netloc)
    visit = Visit(browser.new_context(**context).new_page(), host, expected)
    try:
        visit.page.goto(url)
        yield visit
    except BaseException:
        visit.page.context.close()
        raise
    visit.close()
