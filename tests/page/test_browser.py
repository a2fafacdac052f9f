"""What watches the page would see what is wrong: each complaint of a browser, and what axe finds, fails a test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Browser

from tests.every import every
from tests.page.browser import axe_violations, visiting

pytestmark = pytest.mark.outside
_POLICY = "default-src 'self' 'unsafe-inline'; img-src * data:"
"""No `eval`, as the page has it."""
_PAGE = """<!doctype html><html lang="en"><head><title>A page</title><link rel="icon" href="data:,"></head>
<body><main><h1>A page</h1>{}</main></body></html>"""


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[str, dict[str, str]]]:
    """The URL of a site, and the bodies of its pages."""
    bodies = {"/": ""}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in bodies:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-security-policy", _POLICY)
            self.end_headers()
            self.wfile.write(_PAGE.format(bodies[self.path]).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    server.server_close()
    thread.join()


class TestComplaints:
    def test_a_good_page_has_none(self, browser: Browser, site: tuple[str, dict[str, str]]) -> None:
        with visiting(browser, site[0]) as visit:
            assert visit.page.locator("h1").inner_text() == "A page"

    @every(
        ("body", "told"),
        [
            ("<script>throw Error('broken')</script>", "error: broken"),
            ("<script>console.error('complains')</script>", "console: complains"),
            ("<script>alert('opens')</script>", "dialog: opens"),
            ("<img alt='' src='/missing'>", "404"),
            ("<img alt='' src='http://localhost:9/'>", "asked elsewhere: http://localhost:9/"),
            ("<img alt='' src='http://127.0.0.1:9/'>", "failed: GET http://127.0.0.1:9/"),
        ],
    )
    def test_of_each_the_test_is_told(
        self, browser: Browser, site: tuple[str, dict[str, str]], body: str, told: str
    ) -> None:
        site[1]["/bad"] = body
        with pytest.raises(AssertionError, match=told), visiting(browser, f"{site[0]}/bad"):
            pass


class TestAxe:
    def test_finds_nothing_on_a_good_page(self, browser: Browser, site: tuple[str, dict[str, str]]) -> None:
        with visiting(browser, site[0]) as visit:
            assert axe_violations(visit.page) == []

    def test_finds_what_is_wrong(self, browser: Browser, site: tuple[str, dict[str, str]]) -> None:
        site[1]["/bad"] = '<p style="color: #ccc; background: #fff">Pale</p><input>'
        with visiting(browser, f"{site[0]}/bad") as visit:
            found = {line.partition(":")[0] for line in axe_violations(visit.page)}
        assert found == {"color-contrast", "label"}
