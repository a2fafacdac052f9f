"""Links of logins serve at whichever replica a browser comes to, and bind there nobody to anything either."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from agent_utilities.state.redis_state import WAIT_S, RedisState
from tests.fleet.processes.replicas import Shared, until
from tests.fleet.test_gateways import account, another, two
from tests.gateway.logins.gateways import Office, asked, has_login, log_in, office
from tests.gateway.logins.issuers import Browser

pytestmark = [pytest.mark.anyio, pytest.mark.outside, pytest.mark.timeout(120)]
INBOX = "agent-utilities:gateway:inbox:*"
SPENT = 410


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def inboxes(shared: Shared) -> list[bytes]:
    return shared.admin.pubsub_channels(INBOX)  # type: ignore[return-value]


async def link_elsewhere(here: Office, there: Office, shared: Shared) -> str:
    """Return a link that one replica made for ann, and that leads to the other."""
    await until(lambda: len(inboxes(shared)) == 2)
    async with there.client(there.ann) as client:
        link = await asked(client)
    assert link.startswith(here.url)
    return link


class TestALinkOfAnotherReplica:
    async def test_leads_its_person_to_their_account_and_serves_once(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there), Browser(at_mail="ann@mail") as anns:
            link = await link_elsewhere(here, there, shared)
            assert await anns.open(link) == 200
            assert await anns.press(token=here.ann) == 200
            assert "You are ann" in anns.page
            assert await anns.press() == 200
            assert "You can close this page" in anns.page
            back = next(url for url in anns.seen if "/logins/callback" in url)
            assert {url.split("/logins")[0] for url in anns.seen if "/logins" in url} == {here.url}
            assert await anns.open(back) == SPENT
            assert await anns.open(link) == SPENT
            assert [await has_login(each, each.ann) for each in (here, there)] == [True, True]
            assert not await has_login(here, here.bob)
            assert here.issuer.counts["code"] == 1

    async def test_has_a_call_go_on_that_waits_for_it(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there):
            await log_in(await link_elsewhere(here, there, shared), here.ann, at_mail="ann@mail")
            assert await until(account(there).has_login.is_set) < 2

    async def test_is_bound_to_one_browser_and_its_person(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there), Browser() as anns, Browser(at_mail="bob@mail") as bobs:
            link = await link_elsewhere(here, there, shared)
            assert await bobs.open(link) == 200
            assert await bobs.press(token=here.bob) == 403
            await anns.open(link)
            assert await anns.press(token=here.ann) == 200
            await bobs.open(link)
            bobs.page, bobs.url = anns.page, anns.url  # the very form, sent on
            assert await bobs.press() == SPENT
            assert await anns.press() == 401  # the issuer does not know her browser: that address is sent on
            assert await bobs.open(anns.url) == SPENT
            assert not await has_login(here, here.ann)
            assert not await has_login(here, here.bob)
            assert here.issuer.counts["code"] == 0

    async def test_can_be_sent_by_no_page_of_somebody_elses(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there), httpx2.AsyncClient() as anns:
            link = await link_elsewhere(here, there, shared)
            assert (await anns.get(link)).cookies
            assert (await anns.post(link, data={"step": "token", "token": here.ann})).status_code == SPENT
            assert (await anns.post(link, data={"token": "x" * (17 << 10)})).status_code == SPENT

    async def test_says_so_where_redis_is_gone_and_serves_when_it_is_back(
        self, shared: Shared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with two(shared, tmp_path) as (here, there), httpx2.AsyncClient() as web:
            link = await link_elsewhere(here, there, shared)
            monkeypatch.setattr(RedisState, "wait_s", WAIT_S)
            shared.pause()
            try:
                answer = await web.get(link)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert (await web.get(link.replace(here.url, there.url))).status_code == 200
            finally:
                shared.go_on()

            async def is_served() -> bool:
                return (await web.get(link)).status_code == 200

            await until(is_served)

    async def test_of_one_that_is_gone_is_spent(self, shared: Shared, tmp_path: Path) -> None:
        async with office(tmp_path, **shared.environ) as here:
            async with another(here, tmp_path / "there", **shared.environ) as there:
                link = await link_elsewhere(here, there, shared)
            await until(lambda: len(inboxes(shared)) == 1)
            async with httpx2.AsyncClient() as web:
                assert (await web.get(link)).status_code == SPENT
                assert (await web.post(link, data={"step": "token"})).status_code == SPENT

    async def test_that_nobody_made_is_asked_of_nobody(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, _), httpx2.AsyncClient() as web:
            assert (await web.get(f"{here.url}/logins/of-nobody")).status_code == SPENT
            assert (await web.get(f"{here.url}/logins/callback?state=of-nobody&code=1")).status_code == SPENT


class TestAStranger:
    async def test_reads_neither_links_nor_tokens_and_is_answered_nothing(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there), Browser(at_mail="ann@mail") as anns:
            link = await link_elsewhere(here, there, shared)
            with shared.admin.pubsub() as ears:
                ears.psubscribe(INBOX)
                assert await anns.open(link) == 200
                assert await anns.press(token=here.ann) == 200
                heard = []
                while (message := ears.get_message(timeout=0.5)) is not None:
                    heard.append(message["data"])
            told = shared.told() + b"".join(each for each in heard if isinstance(each, bytes))
            assert len(heard) == 1 + 4
            assert [text for text in (link[-20:], here.ann, "ann") if text.encode() in told] == []
            for inbox in inboxes(shared):
                for message in (*heard[1:], b"junk", b""):  # sent on, and to others
                    shared.admin.publish(inbox, message)
            assert await anns.press() == 200
            assert here.issuer.counts["code"] == 1
            assert not await has_login(here, here.bob)

    async def test_who_names_another_inbox_is_sent_nothing(self, shared: Shared, tmp_path: Path) -> None:
        async with two(shared, tmp_path) as (here, there), httpx2.AsyncClient() as web:
            link = await link_elsewhere(here, there, shared)
            (place,) = shared.admin.scan_iter("agent-utilities:gateway:link:*")
            shared.admin.set(place, "agent-utilities:gateway:inbox:mine")
            assert (await web.get(link)).status_code == SPENT
