"""Another page in the same browser, on another port or under another name, can neither read the page nor press."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.page.browser import launched
from tests.page.serving import REQUESTS, Gateway

pytestmark = pytest.mark.outside
BEHIND = ("notes",)
STRANGER, REBOUND = "stranger.example", "rebound.example"
PRESSED = {"server": "notes"}
PATHS = ("/", "/page/servers", "/?format=json", "/page/calls/events", "/page/servers/restart?server=notes")
_READ = """async (url) => {
  const told = {};
  const no_answer = (error) => "refused: " + error.name;
  told.fetch = await fetch(url, {credentials: "include"}).then((r) => r.text(), no_answer);
  told.opaque = await fetch(url, {credentials: "include", mode: "no-cors"}).then((r) => r.text(), no_answer);
  const element = (tag, attribute) => new Promise((done) => {
    const made = Object.assign(document.createElement(tag), {[attribute]: url});
    if (tag === "link") made.rel = "stylesheet";
    made.onload = () => done(made);
    made.onerror = () => done(null);
    document.body.append(made);
  });
  told.script = (await element("script", "src")) === null;
  told.image = (await element("img", "src")) === null;
  const style = await element("link", "href");
  try { told.style = style === null || style.sheet.cssRules.length === 0; } catch (error) { told.style = true; }
  const frame = await element("iframe", "src");
  try { told.frame = frame.contentDocument?.body?.innerText ?? null; } catch (error) { told.frame = null; }
  return told;
}"""
_PRESS = """async ([url, fields]) => {
  const body = new URLSearchParams(fields);
  const sent = [];
  for (const mode of ["cors", "no-cors"])
    sent.push(await fetch(url, {method: "POST", body, mode, credentials: "include"}).then((r) => r.type, () => "none"));
  sent.push(navigator.sendBeacon(url, body));
  const frame = Object.assign(document.createElement("iframe"), {name: "into"});
  document.body.append(frame);
  const form = Object.assign(document.createElement("form"), {method: "post", action: url, target: "into"});
  for (const [name, value] of Object.entries(fields))
    form.append(Object.assign(document.createElement("input"), {type: "hidden", name, value}));
  document.body.append(form);
  const answered = new Promise((done) => { frame.onload = done; });
  form.submit();
  await answered;
  return sent;
}"""


@pytest.fixture(scope="module")
def stranger() -> Iterator[int]:
    """The port of a site that is not ours."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>A stranger</title><body>")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.server_port
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser to which two names, of the stranger and of one that is made to lead here, are this machine."""
    with launched(f"--host-resolver-rules=MAP {STRANGER} 127.0.0.1,MAP {REBOUND} 127.0.0.1") as running:
        yield running


@pytest.fixture
def page(browser: Browser, gateway: Gateway) -> Iterator[Page]:
    """A page of a browser that has the cookie of the gateway's page."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(gateway.link)
    assert page.locator("nav").count() == 1
    yield page
    context.close()


@pytest.fixture(params=["127.0.0.1", STRANGER])
def foreign(request: pytest.FixtureRequest, page: Page, stranger: int) -> Page:
    """The same browser on a page of a stranger: another port of the gateway's own host, or another name."""
    page.goto(f"http://{request.param}:{stranger}/")
    return page


class TestAStranger:
    def test_reads_nothing(self, foreign: Page, gateway: Gateway) -> None:
        told = {path: foreign.evaluate(_READ, f"{gateway.url}{path}") for path in PATHS if "events" not in path}
        nothing = {"fetch": "refused: TypeError", "opaque": "", "script": True, "image": True, "style": True}
        for each in told.values():
            assert each.pop("frame") in (None, "")
            each.update(opaque="" if each["opaque"].startswith("refused") else each["opaque"])
        assert told == dict.fromkeys(told, nothing)

    def test_has_no_frame_of_it(self, foreign: Page, gateway: Gateway) -> None:
        foreign.evaluate(_READ, gateway.url)
        assert len(foreign.frames) == 2
        assert not foreign.frames[1].url.startswith(gateway.url)

    def test_listens_to_no_call(self, foreign: Page, gateway: Gateway) -> None:
        heard = foreign.evaluate(
            """(url) => new Promise((done) => {
              const source = new EventSource(url, {withCredentials: true});
              source.onmessage = (event) => done(event.data);
              source.onerror = () => { source.close(); done("refused"); };
            })""",
            f"{gateway.url}/page/calls/events",
        )
        assert heard == "refused"

    def test_presses_nothing(self, foreign: Page, gateway: Gateway) -> None:
        before, statuses = gateway.call("notes_pid"), list[int]()
        foreign.on("response", lambda answer: _note(answer, gateway, statuses))
        foreign.evaluate(_PRESS, [f"{gateway.url}/page/servers/restart", PRESSED])
        assert set(statuses) == {403}
        assert gateway.call("notes_pid") == before

    def test_opens_it_and_sees_nothing_of_it(self, foreign: Page, gateway: Gateway) -> None:
        with foreign.context.expect_page() as opened:
            foreign.evaluate("(url) => { window.other = window.open(url, 'other'); }", gateway.url)
        opened.value.wait_for_load_state()
        told = foreign.evaluate("() => { try { return window.other.document.title; } catch (e) { return e.name; } }")
        assert told in ("SecurityError", "TypeError", "")


def _note(answer: Response, gateway: Gateway, statuses: list[int]) -> None:
    if answer.url.startswith(gateway.url) and answer.request.method == "POST":
        statuses.append(answer.status)


class TestRebinding:
    """A stranger's name is made to lead to this machine, so that its page is of one origin with ours."""

    def test_is_refused(self, page: Page, gateway: Gateway) -> None:
        answers = [page.goto(f"http://{REBOUND}:{urlsplit(gateway.url).port}{path}") for path in PATHS]
        assert [answer is not None and answer.status for answer in answers] == [421] * len(PATHS)
        assert page.locator("nav").count() == 0

    def test_with_the_key_too(self, page: Page, gateway: Gateway) -> None:
        query = urlsplit(gateway.link).query
        answer = page.goto(f"http://{REBOUND}:{urlsplit(gateway.url).port}/?{query}")
        assert answer is not None
        assert answer.status == 421
        assert {cookie["domain"] for cookie in page.context.cookies()} == {"127.0.0.1"}


class TestTheKey:
    def test_is_in_no_url_that_the_browser_keeps(self, page: Page, gateway: Gateway) -> None:
        key = _key(gateway)
        page.locator("nav a").last.click()
        page.wait_for_load_state()
        session = page.context.new_cdp_session(page)
        visited = [each["url"] for each in session.send("Page.getNavigationHistory")["entries"]]
        assert len(visited) >= 2
        assert key not in " ".join(visited)
        assert key not in page.evaluate("() => document.referrer + location.href")
        assert key not in json.dumps([cookie["value"] for cookie in page.context.cookies()])

    def test_is_sent_to_no_other_page(self, page: Page, gateway: Gateway, stranger: int) -> None:
        page.goto(gateway.link)
        page.evaluate("(url) => { location.href = url; }", f"http://127.0.0.1:{stranger}/")
        page.wait_for_url(f"http://127.0.0.1:{stranger}/")
        assert page.evaluate("() => document.referrer") in ("", f"{gateway.url}/")

    def test_lets_in_who_followed_the_link_from_elsewhere(
        self, browser: Browser, gateway: Gateway, stranger: int
    ) -> None:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"http://{STRANGER}:{stranger}/")
        page.evaluate("(link) => { location.href = link; }", gateway.link)
        expect(page.locator("nav")).to_be_visible()
        assert STRANGER not in page.evaluate("() => document.referrer")
        context.close()

    def test_is_in_no_log(self, page: Page, gateway: Gateway) -> None:
        key = _key(gateway)
        httpx2.get(gateway.url, params={"key": key, "format": "json"}, follow_redirects=False)
        httpx2.get(f"{gateway.url}/page/calls", params={"key": key})
        requests = (gateway.folder / REQUESTS).read_text()
        assert "GET /?key=" in requests
        assert "GET /page/calls?key=" in requests
        assert [line for line in gateway.process.log.splitlines() if key in line] == [f"page: {gateway.link}"]
        kept = [path for path in gateway.folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
        assert [(path.name, path.stat().st_mode & 0o777) for path in kept] == [
            (f"{urlsplit(gateway.url).port}.html", 0o600)
        ]

    def test_is_followed_from_the_file_that_is_its_users_alone(self, browser: Browser, gateway: Gateway) -> None:
        (file,) = (gateway.folder / "kept" / "state" / "agent-utilities" / "page").iterdir()
        page = browser.new_page()
        page.goto(file.as_uri())
        expect(page.locator("nav")).to_be_visible()
        page.close()

    def test_of_another_start_lets_nobody_in(self, browser: Browser, gateway: Gateway) -> None:
        other = _key(gateway)[:-1] + "?"
        answer = httpx2.get(gateway.url, params={"key": other})
        assert (answer.status_code, answer.cookies) == (401, {})


def _key(gateway: Gateway) -> str:
    return urlsplit(gateway.link).query.removeprefix("key=")
