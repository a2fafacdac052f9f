"""The page of a real gateway in a real browser, as its operator has it: by hand, by keyboard alone, without scripts."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.page.browser import PATIENCE_MS, Visiting
from tests.page.serving import SERVERS, Gateway

pytestmark = pytest.mark.outside
expect.set_options(timeout=PATIENCE_MS)
MOST_BYTES = 100_000
"""Of the first view, as it is sent."""
_REACHABLE = """() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
  .filter((each) => each.checkVisibility() && !each.disabled && each.type !== "hidden" && each.tabIndex >= 0)
  .map((each) => each.outerHTML.slice(0, 200))"""
_PHONE = {"width": 390, "height": 844}
_TALLEST = 4_500
"""Pixels of a panel of five servers with 115 tools, on a phone."""
_SIZES = """() => [
  document.documentElement.scrollWidth - innerWidth,
  document.documentElement.scrollHeight,
  [...document.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth)
    .map((each) => each.ariaLabel),
]"""
_FOCUSED = """() => {
  const each = document.activeElement;
  if (each === document.body) return null;
  const {outlineStyle, outlineWidth} = getComputedStyle(each);
  return [each.outerHTML.slice(0, 200), outlineStyle !== "none" && parseFloat(outlineWidth) >= 2];
}"""


def panels(page: Page) -> dict[str, str]:
    """Return the title of each panel by its path."""
    links = page.locator("nav a")
    return {link.get_attribute("href") or "": link.inner_text() for link in links.all()}


class TestPanels:
    def test_each_opens_and_has_its_landmarks(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        there = panels(page)
        assert {"Overview", "Surface", "Prompt", "Servers", "Calls"} <= set(there.values())
        for path, title in there.items():
            answer = page.goto(f"{gateway.url}{path}")
            assert answer is not None
            assert answer.status == 200, path
            expect(page.get_by_role("heading", level=1)).to_have_text(title)
            expect(page).to_have_title(f"{title} · gateway")
            for role in ("banner", "navigation", "main", "contentinfo"):
                expect(page.get_by_role(role)).to_have_count(1)  # type: ignore[arg-type]
            expect(page.locator("nav a[aria-current=page]")).to_have_text(title)

    def test_each_is_reached_by_the_keyboard_alone(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        for path in panels(page):
            page.goto(f"{gateway.url}{path}")
            there, reached = page.evaluate(_REACHABLE), []
            for _ in range(len(there) + 20):
                page.keyboard.press("Tab")
                if (focused := page.evaluate(_FOCUSED)) is None:
                    break
                reached.append(focused)
            assert [each for each in there if each not in {element for element, _ in reached}] == []
            assert [element for element, is_shown in reached if not is_shown] == []

    def test_each_fits_a_phone(self, visit: Visiting, gateway: Gateway) -> None:
        for _ in range(30):
            gateway.call("notes_fail", text="no")
        page = visit(gateway.link, viewport=_PHONE).page
        more = ("/page/surface?tools=git_*", "/page/words?q=create+an+invoice", "/page/tool?named=notes_echo")
        for path in (*panels(page), *more):
            page.goto(f"{gateway.url}{path}")
            wider, tall, scrolled = page.evaluate(_SIZES)
            assert wider <= 0, path
            assert scrolled == [], path
            assert tall <= _TALLEST, path

    def test_the_first_tab_skips_to_what_is_shown(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("main")).to_be_focused()
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.closest('main') !== null")


class TestOverview:
    def test_is_where_the_link_leads_and_has_what_a_host_takes(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link, permissions=["clipboard-read", "clipboard-write"]).page
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        expect(page.get_by_role("main")).to_contain_text("5 of 5 well")
        page.get_by_role("button", name="Copy the endpoint").click()
        assert page.evaluate("() => navigator.clipboard.readText()") == f"{gateway.url}/mcp"
        page.get_by_text("What Claude Code").click()
        expect(page.get_by_role("region", name="Claude Code")).to_contain_text(f"gateway {gateway.url}/mcp")

    def test_counts_the_calls_that_failed(self, visit: Visiting, gateway: Gateway) -> None:
        gateway.call("notes_fail", text="no")
        page = visit(gateway.link).page
        reload_until(page, "failed")  # calls are logged in the background
        page.get_by_role("link", name="failed").click()
        expect(page.locator("tbody tr").first).to_contain_text("notes_fail")
        expect(page.locator("tbody tr:not(.failed)")).to_have_count(0)


class TestSurface:
    def test_has_a_band_a_server(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        page.goto(f"{gateway.url}/page/surface")
        bands = page.locator("section h2").all_inner_texts()
        assert set(SERVERS) <= {band.split()[0] for band in bands}

    def test_what_is_typed_is_what_a_client_then_lists(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link, permissions=["clipboard-read", "clipboard-write"]).page
        page.goto(f"{gateway.url}/page/surface")
        before = page.locator(".big").inner_text()
        page.get_by_label("tools", exact=True).press_sequentially("git_*,files_*")
        page.get_by_label("read_only", exact=True).press("Space")
        page.get_by_text("More, and who calls").click()
        page.get_by_label("tool_search", exact=True).fill("off")
        expect(page.locator("#result")).to_contain_text("0 deferred")
        expect(page.locator(".big")).not_to_have_text(before)
        n = len(gateway.listed(query="?tools=git_*,files_*&read_only=true&tool_search=off"))
        expect(page.locator("tr.visible th")).to_have_count(n)  # of the last that was typed
        shown = page.locator("tr.visible th").all_inner_texts()
        assert {name.partition("_")[0] for name in shown} == {"git", "files"}
        page.get_by_text("What asks for this").click()
        copied = {}
        for where in ("URL", "headers"):
            page.locator("#result .row", has=page.get_by_role("region", name=where)).get_by_role("button").click()
            copied[where] = page.evaluate("() => navigator.clipboard.readText()")
        headers = dict(line.split(": ", 1) for line in copied["headers"].splitlines())
        assert gateway.listed(headers) == gateway.listed(query=f"?{urlsplit(copied['URL']).query}") == shown

    def test_what_was_typed_stands_in_the_address(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        page.goto(f"{gateway.url}/page/surface")
        page.get_by_label("tools", exact=True).fill("git_*")
        expect(page.locator("#result")).to_contain_text("103 denied")
        shown = page.locator("#result").inner_text()
        page.reload()
        assert page.locator("#result").inner_text() == shown
        assert "tools=git_" in page.url

    def test_a_selection_that_can_not_be_read_says_why(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link, expected=lambda complaint: "400" in complaint).page
        page.goto(f"{gateway.url}/page/surface")
        page.get_by_text("More, and who calls").click()
        page.get_by_label("tool_search", exact=True).fill("sometimes")
        expect(page.locator("#result .bad")).to_contain_text("sometimes")
        page.get_by_label("tool_search", exact=True).fill("off")
        expect(page.locator("#result .big")).to_be_visible()

    def test_a_name_that_fits_nothing_is_told_at_its_field_as_one_types(
        self, visit: Visiting, gateway: Gateway
    ) -> None:
        page = visit(gateway.link).page
        page.goto(f"{gateway.url}/page/surface")
        field = page.get_by_label("disabled_tools", exact=True)
        field.press_sequentially("git_git_lgo")
        expect(page.locator("#wrong-disabled_tools")).to_have_text(
            "'git_git_lgo' fits nothing: did you mean git_git_log?"
        )
        expect(page.locator("input[aria-invalid=true]")).to_have_count(1)
        field.fill("git_git_log")
        expect(page.locator("#result")).to_contain_text("1 denied")
        expect(page.locator("#wrong-disabled_tools")).to_have_text("")
        expect(page.locator("input[aria-invalid=true]")).to_have_count(0)

    def test_a_tool_is_opened_and_called(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        page.goto(f"{gateway.url}/page/surface")
        page.locator("summary", has=page.get_by_role("heading", name="notes")).click()
        page.get_by_role("link", name="notes_echo").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("notes_echo")
        page.get_by_label("text").fill("<b>hello</b> there")
        page.get_by_role("button", name="Call").click()
        expect(page.get_by_role("region", name="Arguments in JSON")).to_contain_text('"text": "<b>hello</b> there"')
        expect(page.get_by_role("button", name="Call it")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Done: notes_echo")
        expect(page.locator(".told")).to_have_text("<b>hello</b> there")

    def test_a_call_that_fails_looks_so(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        page.goto(f"{gateway.url}/page/surface")
        looks = {}
        for tool, head in (("notes_echo", "Done: notes_echo"), ("notes_fail", "Failed: notes_fail")):
            page.goto(f"{gateway.url}/page/tool?named={tool}")
            page.get_by_label("text").fill("the disk is full")
            page.get_by_role("button", name="Call").click()
            page.get_by_role("button", name="Call it").click()
            expect(page.get_by_role("heading", level=1)).to_have_text(head)
            expect(page.locator(".told")).to_contain_text("the disk is full")
            style = "(each) => { const s = getComputedStyle(each); return [s.backgroundColor, s.borderRadius]; }"
            looks[tool] = page.locator(".outcome").evaluate(style)
        assert all(done != failed for done, failed in zip(*looks.values(), strict=True))


def reload_until(page: Page, text: str) -> None:
    """Load a page anew until it has a text."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while text not in page.locator("main").inner_text() and time.monotonic() < deadline:
        page.reload()
    expect(page.locator("main")).to_contain_text(text)


def press(page: Page, url: str, name: str) -> str:
    """Press a button on Servers by the keyboard, say yes, and return what was told."""
    page.goto(f"{url}/page/servers")
    page.get_by_role("button", name=name, exact=True).press("Enter")
    expect(page.get_by_role("button", name="Yes")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Done")
    return page.locator(".told").inner_text()


class TestServers:
    def test_a_restart_is_seen_in_the_live_tail(self, visit: Visiting, gateway: Gateway) -> None:
        tail, page = visit(gateway.link).page, visit(gateway.link).page
        tail.goto(f"{gateway.url}/page/calls")
        expect(tail.locator("#live")).to_contain_text("Live")
        before = gateway.call("notes_pid")
        press(page, gateway.url, "Restart notes")
        expect(tail.locator("tbody tr").first).to_contain_text("restart notes")
        assert gateway.call("notes_pid") != before
        expect(tail.locator("tbody th").first).to_have_text("notes_pid")

    def test_no_button_does_a_thing_before_yes(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        before = gateway.call("notes_pid")
        page.goto(f"{gateway.url}/page/servers")
        page.get_by_role("button", name="Stop notes", exact=True).click()
        expect(page.locator(".question")).to_contain_text("notes")
        page.get_by_role("link", name="No").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Servers")
        assert gateway.call("notes_pid") == before

    def test_a_changed_text_is_shown_withheld_and_accepted(self, visit: Visiting, gateway: Gateway) -> None:
        page, everything = visit(gateway.link).page, "?tool_search=off"
        gateway.lock()
        gateway.rewrite_note("Show the whole note.")
        press(page, gateway.url, "List anew notes")
        page.goto(f"{gateway.url}/page/servers")
        withheld = page.locator("section", has=page.get_by_role("heading", name="notes")).locator("details[open]")
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not withheld.count() and time.monotonic() < deadline:  # the file of the lock is read when it was seen
            page.reload()
        expect(withheld.locator("ins")).to_have_text("+ description: Show the whole note.")
        assert "notes_show" not in gateway.listed(query=everything)
        withheld.get_by_role("button", name="Accept").click()
        page.get_by_role("button", name="Yes").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Done")
        assert "notes_show" in gateway.listed(query=everything)


class TestCalls:
    def test_come_as_they_are_made(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        page.goto(f"{gateway.url}/page/calls")
        expect(page.locator("#live")).to_contain_text("Live")
        n_before = page.locator("tbody tr").count()
        gateway.call("notes_fail", text="no")
        expect(page.locator("tbody tr")).to_have_count(n_before + 1)
        expect(page.locator("tbody tr").first).to_contain_text("notes_fail")
        expect(page.locator("tbody tr").first).to_contain_text("failed")

    def test_are_filtered_as_they_come(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        page.goto(f"{gateway.url}/page/calls")
        page.get_by_label("tool", exact=True).fill("echo")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator("#live")).to_contain_text("Live")
        n_before = page.locator("tbody tr").count()
        gateway.call("notes_pid")
        gateway.call("notes_echo", text="a")
        expect(page.locator("tbody tr")).to_have_count(n_before + 1)
        assert set(page.locator("tbody th").all_inner_texts()) == {"notes_echo"}

    def test_a_hidden_tab_listens_to_none_and_misses_none(self, visit: Visiting, gateway: Gateway) -> None:
        coming = visit(gateway.link)
        page = coming.page
        page.add_init_script("Object.defineProperty(document, 'hidden', {get: () => window.is_hidden ?? false})")
        page.goto(f"{gateway.url}/page/calls")
        expect(page.locator("#live")).to_contain_text("Live")
        n_before, turn = page.locator("tbody tr").count(), "document.dispatchEvent(new Event('visibilitychange'))"
        with page.expect_event("requestfailed", lambda request: "/events" in request.url):
            page.evaluate(f"() => {{ window.is_hidden = true; {turn}; }}")
        gateway.call("notes_echo", text="unseen")
        assert page.locator("tbody tr").count() == n_before
        page.evaluate(f"() => {{ window.is_hidden = false; {turn}; }}")
        expect(page.locator("tbody tr")).to_have_count(n_before + 1)


class TestWords:
    def test_what_is_asked_is_ranked(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link).page
        page.get_by_role("link", name="Words").click()
        page.get_by_label("what a user asks").fill("create an invoice")
        page.get_by_label("what a user asks").press("Enter")
        reload_until(page, "Ranks")  # once the index is made, which may be after the graph is filled
        expect(page.locator("tbody tr").first).to_contain_text("office_create_invoice")
        listed = gateway.listed({"x-mcp-query": "create an invoice"}, "?tool_search=off")
        assert listed[0] in page.locator("tbody").first.inner_text()


class TestUsage:
    def test_what_was_called_is_counted(self, visit: Visiting, gateway: Gateway) -> None:
        gateway.call("office_list_tickets")
        page = visit(gateway.link).page
        page.goto(f"{gateway.url}/page/usage")
        reload_until(page, "office_list_tickets")  # calls are logged in the background


class TestWithoutScripts:
    def test_all_but_what_lives_works(self, visit: Visiting, gateway: Gateway) -> None:
        page = visit(gateway.link, java_script_enabled=False).page
        page.goto(f"{gateway.url}/page/surface")
        page.get_by_label("tools", exact=True).fill("git_*")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#result")).to_contain_text("103 denied")
        for path, title in panels(page).items():
            page.goto(f"{gateway.url}{path}")
            expect(page.get_by_role("heading", level=1)).to_have_text(title)
        page.goto(f"{gateway.url}/page/tool?named=notes_echo")
        page.get_by_label("text").fill("hello without scripts")
        page.get_by_role("button", name="Call").click()
        expect(page.locator(".question")).to_contain_text("notes_echo may write")
        page.get_by_role("button", name="Call it").click()
        expect(page.locator(".told")).to_contain_text("hello without scripts")
        page.goto(f"{gateway.url}/page/calls?called=echo")
        expect(page.locator("tbody tr").first).to_contain_text("notes_echo")


def test_the_first_view_is_small(visit: Visiting, gateway: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    coming = visit("about:blank", host=gateway.host)
    sizes: dict[str, int] = {}

    def note(request: object) -> None:
        sent = request.sizes()  # type: ignore[attr-defined]
        sizes[request.url] = sent["responseBodySize"] + sent["responseHeadersSize"]  # type: ignore[attr-defined]

    coming.page.on("requestfinished", note)
    coming.page.goto(gateway.link)
    coming.page.wait_for_load_state("networkidle")
    ms = coming.page.evaluate("() => performance.getEntriesByType('navigation')[0].loadEventEnd")
    with capsys.disabled():
        print(f"\nfirst view of five servers: {sum(sizes.values()):,} bytes in {len(sizes)} answers, {ms:.0f} ms")
    assert len(sizes) >= 4
    assert sum(sizes.values()) <= MOST_BYTES
