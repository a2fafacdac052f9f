"""What servers, tools, callers and logs are called and say stands on the page as text, and nothing of it runs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlencode

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from playwright.sync_api import Browser, Page, expect

from agent_utilities.access.token_file import new_token
from agent_utilities.runtime.shown import shown
from agent_utilities.selection.caller import selection_headers
from tests.access.local_issuer import LocalIssuer
from tests.access.team import bearing
from tests.page.browser import PATIENCE_MS, Visit, visiting
from tests.page.hostile import N_LONGEST_NAME, TEXTS, names
from tests.page.serving import BIN, ROOT, Served, free_port, in_a_loop_of_its_own, served, server

pytestmark = pytest.mark.outside
PANELS = (
    "/",
    "/page/surface",
    "/page/prompt",
    "/page/servers",
    "/page/calls",
    "/page/usage",
    "/page/words",
    "/page/sessions",
)
GIVEN = (
    ("/page/surface", ("tools", "toolsets", "tags", "q")),
    ("/page/surface", ("claims",)),
    ("/page/surface", ("profile",)),
    ("/page/surface", ("active",)),
    ("/page/calls", ("server", "called", "caller")),
    ("/page/words", ("q",)),
    ("/page/prompt", ("price",)),
    ("/page/usage", ("days",)),
    ("/page/tool", ("named",)),
)
"""What a URL gives to a panel, and the panel shows again, or says what is wrong with it."""
BY_DAY = tuple(text for text in TEXTS if re.match(r"<img|</t|[\"'] on|{{7|bell", text))
"""Those that end each place in which a text can stand."""
_SETTINGS = """
[auth]
tokens = "tokens.json"
issuer = "{issuer}"
base_url = "{url}"

[[access]]
who = {{ issuer = "local", subject = "ann" }}
profile = "all"
may = ["page.read", "page.operate"]

[[access]]
who = {{ issuer = "{issuer}" }}
profile = "all"
"""
ALIVE = """() => [...document.querySelectorAll("*")].filter((each) => {
  const away = ["href", "src", "action", "formaction", "data"].some((name) => each.hasAttribute(name)
    && new URL(each.getAttribute(name), location.href).origin !== location.origin);
  const acts = [...each.attributes].some(({name}) => name.startsWith("on") || name === "style" || name === "srcdoc");
  const own = each.matches('script[src="/page/static/page.js"], link[href^="/page/static/"]');
  const odd = each.matches("script, link, style, base, iframe, object, embed, template, math, [http-equiv]") && !own;
  return away || acts || odd || each.matches(".pwned");
}).map((each) => each.outerHTML.slice(0, 200)).concat(window.pwned ? ["ran"] : [])"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway before a server of hostile tools, and others of hostile names that can't be started; all were called.

    Each text is the subject of a caller too, their words, and the name of a tool that they call and there is not.
    """
    folder, issuer, port = tmp_path_factory.mktemp("hostile"), LocalIssuer(), free_port()
    entry = {"command": sys.executable, "args": ["-m", "tests.page.hostile"], "cwd": str(ROOT)}
    missing = {name: {"command": f"/missing/{name}"} for name in names()}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"hostile": entry, **missing}}), encoding="utf-8")
    url = f"http://127.0.0.1:{port}"
    (folder / "team.toml").write_text(_SETTINGS.format(issuer=issuer.url, url=url), encoding="utf-8")
    (folder / "token").write_text(new_token(folder / "tokens.json", "ann"))
    own = {"MCP_CONFIG_FILE": "team.toml", "MCP_USAGE": "words"}
    try:
        with served(folder, [BIN / "agent-utilities", "gateway", folder / "mcp.json"], own, port) as process:
            gateway = Served(folder, process)
            _call_all(gateway, issuer)
            yield gateway
    finally:
        issuer.down()


def _call_all(gateway: Served, issuer: LocalIssuer) -> None:
    async def call(text: str, name: str) -> None:
        token = issuer.token(sub=text, aud=f"{gateway.url}/mcp")
        words = re.sub(r"[\x00-\x1f\x7f]", " ", text)  # these no words may have
        headers = {**selection_headers(query=words, tool_search="off"), **bearing(token)}
        async with Client(StreamableHttpTransport(f"{gateway.url}/mcp", headers=headers)) as client:
            await client.list_tools()
            await client.call_tool(name, raise_on_error=False)
            await client.call_tool(text, raise_on_error=False)

    async def call_each() -> None:
        limit = anyio.CapacityLimiter(4)

        async def one(text: str, name: str) -> None:
            async with limit:
                await call(text, name)

        async with anyio.create_task_group() as group:
            for text, name in zip(TEXTS, tools, strict=True):
                group.start_soon(one, text, name)

    token = bearing((gateway.folder / "token").read_text())
    tools = [name for name in gateway.listed(token, "?tool_search=off") if name.startswith("hostile_")]
    in_a_loop_of_its_own(call_each)


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose author named its tools so."""
    with server(tmp_path_factory.mktemp("author"), Path(__file__).with_name("hostile_author.py")) as held:
        yield held


@pytest.fixture(params=["some", pytest.param("all", marks=[pytest.mark.nightly, pytest.mark.timeout(900)])])
def texts(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Texts for what takes a visit each."""
    return BY_DAY if request.param == "some" else TEXTS


@pytest.fixture
def ann(browser: Browser, hostile: Served) -> Iterator[Visit]:
    """The page of an operator, who has logged in with a token of theirs."""
    with visiting(browser, hostile.url, expected=_is_a_status) as visit:
        visit.page.get_by_label("Your token for this server").fill((hostile.folder / "token").read_text())
        visit.page.get_by_role("button", name="Log in").click()
        visit.page.wait_for_selector("nav")
        yield visit


def _is_a_status(complaint: str) -> bool:
    return re.search(r"the server responded with a status of 4\d\d ", complaint) is not None


def _is_dead(page: Page) -> None:
    assert page.evaluate(ALIVE) == []
    assert page.locator("h1").count() == 1
    assert page.locator("footer").is_visible()
    text = page.locator("body").inner_text()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069\u2028]", text)


def _seen(text: str) -> str:
    """Return a text as the page shows it, whose breaks of lines and spaces are the browser's."""
    return re.sub(r"\s+", "", "".join(shown(line, None) for line in text.split("\n")))


class TestOfServersAndCallers:
    def test_nothing_runs_on_any_panel(self, ann: Visit, hostile: Served) -> None:
        for path in PANELS:
            ann.page.goto(f"{hostile.url}{path}")
            _is_dead(ann.page)

    def test_each_tool_is_shown_as_it_describes_itself(self, ann: Visit, hostile: Served) -> None:
        ann.page.goto(f"{hostile.url}/page/surface")
        links = ann.page.locator('a[href^="/page/tool?named=hostile"]')
        found = set()
        for path in links.evaluate_all("(links) => links.map((each) => each.getAttribute('href'))"):
            ann.page.goto(f"{hostile.url}{path}")
            _is_dead(ann.page)
            found.add(_seen(ann.page.locator("main").inner_text()))
        missing = [text for text in TEXTS if not any(_seen(text) in page for page in found)]
        assert (len(found), missing) == (len(TEXTS), [])

    def test_callers_and_words_are_shown_as_they_are(self, ann: Visit, hostile: Served) -> None:
        ann.page.goto(f"{hostile.url}/page/calls?all=true")
        page = _seen(ann.page.locator("main").inner_text())
        assert [text for text in TEXTS if _seen(text)[:100] not in page] == []

    def test_servers_are_shown_by_their_names(self, ann: Visit, hostile: Served) -> None:
        ann.page.goto(f"{hostile.url}/page/servers")
        page = _seen(ann.page.locator("main").inner_text())
        assert [name for name in names() if _seen(name) not in page] == []

    def test_what_comes_live_stands_as_it_is(self, ann: Visit, hostile: Served) -> None:
        ann.page.goto(f"{hostile.url}/page/calls")
        expect(ann.page.locator("#live")).to_contain_text("Live", timeout=PATIENCE_MS)
        n_before = ann.page.locator("tbody tr").count()
        for text in BY_DAY:
            hostile.call(text, bearing((hostile.folder / "token").read_text()))
        expect(ann.page.locator("tbody tr")).to_have_count(n_before + len(BY_DAY), timeout=PATIENCE_MS)
        _is_dead(ann.page)
        came = [_seen(name) for name in ann.page.locator("tbody th").all_inner_texts()[: len(BY_DAY)]]
        assert came == [_seen(text) for text in reversed(BY_DAY)]

    def test_lines_of_a_log_are_shown_as_they_are(self, ann: Visit, hostile: Served) -> None:
        ann.page.goto(f"{hostile.url}/page/servers")
        ann.page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        _is_dead(ann.page)
        written = _seen(ann.page.locator("section", has=ann.page.get_by_role("heading", name="hostile")).inner_text())
        printable = [text for text in TEXTS[-12:] if text.isprintable()]  # the rest is cleaned as it is read
        assert [text for text in printable if _seen(text)[:100] not in written] == []

    def test_questions_are_asked_with_texts_as_they_are(
        self, ann: Visit, hostile: Served, texts: tuple[str, ...]
    ) -> None:
        for name in names(texts):
            ann.page.goto(f"{hostile.url}/page/servers/restart?{urlencode({'server': name})}")
            _is_dead(ann.page)
            assert _seen(name) in _seen(ann.page.locator(".question").inner_text())


class TestOfAUrl:
    """A link that somebody was sent."""

    def test_nothing_runs_of_what_it_gives_a_panel(self, ann: Visit, hostile: Served, texts: tuple[str, ...]) -> None:
        for path, fields in GIVEN:
            for text in texts:
                ann.page.goto(f"{hostile.url}{path}?{urlencode(dict.fromkeys(fields, text[:2_000]))}")
                _is_dead(ann.page)

    def test_nor_of_its_path(self, ann: Visit, hostile: Served, texts: tuple[str, ...]) -> None:
        for text in (text for text in texts if "\n" not in text):
            for path in ("/page/servers/", "/page/"):
                ann.page.goto(f"{hostile.url}{path}{quote(text[:500], safe='')}")
                _is_dead(ann.page)

    def test_a_stream_begins_wherever_it_says(self, ann: Visit) -> None:
        for after in ("<b>", "-1", "1e9", "9" * 5_000, "\u0663", "2.5"):
            heard = ann.page.evaluate(
                """(after) => new Promise((done) => {
                  const source = new EventSource("/page/calls/events?after=" + encodeURIComponent(after));
                  const told = (event) => { source.close(); done(event.type); };
                  source.onmessage = source.onerror = told;
                })""",
                after,
            )
            assert heard == "message", after


class TestOfAnAuthor:
    """A server's own tools keep the names that their author gave them."""

    def test_names_and_tags_are_shown_as_they_are(self, browser: Browser, author: Served) -> None:
        with visiting(browser, author.link) as visit:
            _is_dead(visit.page)
            visit.page.goto(f"{author.url}/page/surface")
            visit.page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true; })")
            _is_dead(visit.page)
            page = _seen(visit.page.locator("main").inner_text())
            assert [text for text in TEXTS if page.count(_seen(text[:N_LONGEST_NAME])) < 2] == []
