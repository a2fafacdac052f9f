"""Logging in to the page at a real OpenID provider, as a browser does."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from agent_utilities import create_mcp_server
from agent_utilities.page.door import BACK, PATH
from tests.access.provider import Provider, browse, listening, serving, url_of

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(600)]

SETTINGS = """
[auth]
issuer = "{issuer}"
base_url = "{base_url}"

[[access]]
who = {{ subject = "ann" }}
profile = "all"
may = ["page.read"]

[[access]]
who = {{ subject = "*" }}
profile = "all"
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server at whose issuer people log in."""
    folder = tmp_path_factory.mktemp("page")
    provider = Provider(folder, "http://127.0.0.1/nowhere")
    provider.start()
    try:
        with listening() as held:
            settings = folder / "agent-utilities.toml"
            settings.write_text(SETTINGS.format(issuer=provider.url, base_url=url_of(held)))
            server = create_mcp_server("notes", environ={"MCP_GRAPH": "off", "MCP_CONFIG_FILE": str(settings)})
            server.tool(name="read_note")(lambda: "a note")
            with serving(server, held):
                yield url_of(held)
    finally:
        provider.kill()


async def came_back(browser: httpx2.AsyncClient, name: str) -> str:
    """Begin a login in a browser, and return the address that the provider sends it back to."""
    sent = await browser.get(PATH)
    assert sent.status_code == 303, sent.text
    assert "code_challenge=" in sent.headers["location"]
    return await browse(sent.headers["location"], name, lambda address: urlsplit(address).path == BACK, [])


async def test_whom_a_rule_gives_the_right_gets_in_by_their_login(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as browser:
        assert "Log in as your company has it" in (await browser.get("/")).text
        entered = await browser.get(await came_back(browser, "ann"))
        assert (entered.status_code, entered.headers["location"]) == (303, "/page/static/entered.html")
        assert (await browser.get("/")).status_code == 200


async def test_whom_none_does_is_told_so(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as browser:
        refused = await browser.get(await came_back(browser, "bob"))
        assert (refused.status_code, "page.read" in refused.text) == (403, True)
        assert (await browser.get("/")).status_code == 401


async def test_a_login_ends_in_the_browser_that_it_began_in(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as browser, httpx2.AsyncClient(base_url=url) as other:
        back = await came_back(browser, "ann")
        assert (await other.get(back)).status_code == 401
        assert (await other.get("/")).status_code == 401
        for changed in (back.replace("state=", "state=x"), back.split("?")[0], f"{back.split('?')[0]}?state="):
            assert (await browser.get(changed)).status_code == 401
        assert (await browser.get(back)).status_code == 303


async def test_a_login_ends_once(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as browser:
        back = await came_back(browser, "ann")
        assert (await browser.get(back)).status_code == 303
        assert (await browser.get(back)).status_code == 401


async def test_a_login_that_was_refused_or_whose_code_is_none_is_told_so(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as browser:
        for given, told in (("error=access_denied", "it was refused: access_denied"), ("code=guessed", "HTTP 400")):
            sent = httpx2.URL((await browser.get(PATH)).headers["location"])
            issuer = f"{sent.scheme}://{sent.netloc.decode()}"
            refused = await browser.get(f"{BACK}?state={sent.params['state']}&iss={issuer}&{given}")
            assert (refused.status_code, told in refused.text) == (401, True), refused.text


async def test_logins_of_strangers_end_nobody_elses_and_have_one_client_registered(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url) as browser, httpx2.AsyncClient(base_url=url) as stranger:
        back = await came_back(browser, "ann")
        sent = [parse_qs(urlsplit((await stranger.get(PATH)).headers["location"]).query) for _ in range(300)]
        assert len({each["client_id"][0] for each in sent}) == 1
        assert len({each["state"][0] for each in sent}) == len({each["code_challenge"][0] for each in sent}) == 300
        assert (await browser.get(back)).status_code == 303


async def test_a_login_that_took_too_long_has_ended(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with httpx2.AsyncClient(base_url=url) as browser:
        back = await came_back(browser, "ann")
        monkeypatch.setattr("agent_utilities.page.door.LOGIN_S", -1.0)
        assert (await browser.get(back)).status_code == 401
