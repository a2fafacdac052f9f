"""Links to log in by: passed on, used twice, or from another page they bind nobody to anything."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from agent_utilities.gateway.logins.feature import Logins
from agent_utilities.seam.host import find
from tests.gateway.logins.gateways import Office, asked, has_login, log_in, office
from tests.gateway.logins.issuers import Browser

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
SPENT, FOREIGN = 410, 403


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def link_of_ann(folder: Path, *, has_issuer: bool = False) -> AsyncIterator[tuple[Office, str]]:
    """A link that was made for ann."""
    async with office(folder, has_issuer=has_issuer) as at:
        async with at.client(at.ann) as client:
            link = await asked(client)
        yield at, link


async def nobody_is_logged_in(at: Office) -> bool:
    return not await has_login(at, at.ann) and not await has_login(at, at.bob)


class TestByTokens:
    async def test_is_refused_to_whoever_brings_another_token(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, link), Browser(at_mail="bob@mail") as bobs:
            assert await bobs.open(link) == 200
            assert "ann" not in bobs.page
            assert await bobs.press(token=at.bob) == 403
            assert await nobody_is_logged_in(at)
            await log_in(link, at.ann, at_mail="ann@mail")  # it was not spent by that
            assert await has_login(at, at.ann)

    async def test_does_not_go_on_in_another_browser_once_its_person_was_shown_to_be_there(
        self, tmp_path: Path
    ) -> None:
        async with link_of_ann(tmp_path) as (at, link), Browser() as anns, Browser(at_mail="bob@mail") as bobs:
            await anns.open(link)
            assert await anns.press(token=at.ann) == 200
            await bobs.open(link)
            bobs.page, bobs.url = anns.page, anns.url  # the very form, sent on
            assert await bobs.press() == SPENT
            assert await nobody_is_logged_in(at)

    async def test_does_not_end_in_another_browser_than_it_began_in(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, link), Browser() as anns, Browser(at_mail="bob@mail") as bobs:
            await anns.open(link)
            await anns.press(token=at.ann)
            assert await anns.press() == 401  # the issuer does not know her browser: that address is sent on
            assert await bobs.open(anns.url) == SPENT
            assert "/logins/callback" in bobs.seen[-1]
            assert await nobody_is_logged_in(at)
            assert at.issuer.counts["code"] == 0

    async def test_serves_once(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, link), Browser(at_mail="ann@mail") as anns:
            await anns.open(link)
            form = anns.page, anns.url
            await anns.press(token=at.ann)
            confirm = anns.page, anns.url
            assert await anns.press() == 200
            back = next(url for url in anns.seen if "/logins/callback" in url)
            assert await anns.open(back) == SPENT
            for anns.page, anns.url in (form, confirm):
                assert await anns.press(token=at.ann) == SPENT
            assert await anns.open(link) == SPENT
            assert at.issuer.counts["code"] == 1

    async def test_can_be_sent_by_no_page_of_somebody_elses(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, link), httpx2.AsyncClient() as anns:
            cookies = (await anns.get(link)).cookies
            assert cookies
            posted = await anns.post(link, data={"step": "token", "token": at.ann})
            assert posted.status_code == SPENT

    async def test_takes_no_form_of_another_port_or_site(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, link), Browser() as anns:
            await anns.open(link)
            await anns.press(token=at.ann)
            confirm = anns.page, anns.url
            for anns.headers in (
                {"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"}, {"origin": "null"},
                {"origin": "https://evil.example"}, {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "cross-site"},
            ):  # fmt: skip
                anns.page, anns.url = confirm
                assert await anns.press() == FOREIGN
            anns.page, anns.url = confirm
            anns.headers = {"origin": at.url}
            assert await anns.press() == 401  # on to the issuer, which knows nobody in this browser

    async def test_of_one_person_ends_no_login_of_another_however_many_are_begun(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path, has_issuer=True) as (at, link):
            async with Browser(at_gate="ann", at_mail="ann@mail") as anns, at.client(at.bob) as bob:
                await anns.open(link)
                assert await anns.press() == 200
                for _ in range(30):
                    async with Browser() as bobs:
                        await bobs.open(await asked(bob))
                        form = bobs.page, bobs.url
                        for bobs.page, bobs.url in [form] * 8:
                            assert await bobs.press() == 401  # on to the issuer, where nobody knows this browser
                assert await anns.press() == 200
            assert await has_login(at, at.ann)

    async def test_have_one_client_registered_at_the_servers_issuer(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path, has_issuer=True) as (at, link):
            for _ in range(5):
                async with Browser(at_gate="bob") as bobs:
                    await bobs.open(link)
                    assert await bobs.press() == 403
            assert at.gate is not None
            assert len(at.gate.clients) == 1

    async def test_is_tried_so_often_and_no_more(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, link), Browser() as bobs:
            await bobs.open(link)
            form = bobs.page, bobs.url
            for _ in range(8):
                bobs.page, bobs.url = form
                assert await bobs.press(token=at.bob) == 403
            bobs.page, bobs.url = form
            assert await bobs.press(token=at.ann) == SPENT
            async with at.client(at.ann) as ann:
                assert await asked(ann) != link

    async def test_is_one_of_four_that_are_kept_for_one_person_and_upstream(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, first), at.client(at.ann) as ann:
            feature = find(at.gateway, Logins)
            assert feature is not None
            made = [first]
            for _ in range(5):
                for link in feature._prepared._links.values():
                    link.n_tries = 8
                made.append(await asked(ann))
            kept = [link.url for link in feature._prepared._links.values()]
        assert kept == made[-4:]

    async def test_tells_why_a_login_was_refused(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, link), Browser() as anns:
            await anns.open(link)
            await anns.press(token=at.ann)
            await anns.press()  # the issuer does not know her
            state = next(httpx2.URL(url).params["state"] for url in anns.seen if "code_challenge" in url)
            assert await anns.open(f"{at.url}/logins/callback?state={state}&error=access_denied") == 502
            assert "it was refused: access_denied" in anns.page

    async def test_ends_after_ten_minutes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async with link_of_ann(tmp_path) as (at, link), Browser() as anns:
            assert await anns.open(link) == 200
            monkeypatch.setattr("agent_utilities.gateway.logins.links.LOGIN_S", 0.0)
            assert await anns.press(token=at.ann) == SPENT
            assert await anns.open(link) == SPENT

    async def test_is_the_same_for_all_who_ask_until_it_is_used(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path) as (at, link), at.client(at.ann) as ann, at.client(at.bob) as bob:
            assert await asked(ann) == link
            assert await asked(bob) != link


class TestByAnIssuer:
    """The gateway's own callers log in at an issuer: so do their browsers."""

    async def test_leads_its_person_to_their_account(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path, has_issuer=True) as (at, link):
            async with Browser(at_gate="ann", at_mail="ann@mail") as anns:
                assert await anns.open(link) == 200
                assert await anns.press() == 200
                assert "You are ann (http" in anns.page
                assert await anns.press() == 200
                assert "You can close this page" in anns.page
            assert await has_login(at, at.ann)
            assert not await has_login(at, at.bob)

    async def test_is_refused_to_whoever_logs_in_as_somebody_else(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path, has_issuer=True) as (at, link):
            async with Browser(at_gate="bob", at_mail="bob@mail") as bobs:
                await bobs.open(link)
                assert await bobs.press() == 403
                assert "ann" not in bobs.page
            assert await nobody_is_logged_in(at)

    async def test_takes_nobody_for_its_person_in_another_browser_than_theirs(self, tmp_path: Path) -> None:
        async with link_of_ann(tmp_path, has_issuer=True) as (at, link):
            async with Browser(at_mail="bob@mail") as bobs, Browser(at_gate="ann") as anns:
                await bobs.open(link)
                assert await bobs.press() == 401  # nobody at the gateway's issuer: he has ann open that address
                assert await anns.open(bobs.url) == SPENT
                await bobs.open(link)
                assert "Show who you are" not in bobs.page
            assert await nobody_is_logged_in(at)
