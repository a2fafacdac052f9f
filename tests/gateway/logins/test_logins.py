"""Each caller's own login at an upstream: who is asked how, what each is listed, and what they are given."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.server.auth import AccessToken
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp_types import ElicitRequestURLParams, ElicitResult, ToolListChangedNotification

from tests.every import every
from tests.gateway.logins.gateways import LOGGED_IN, Office, asked, link_in, log_in, logged_in, office, told
from tests.parts import query_of

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
ERAS = ("legacy", "2026-07-28")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class TestOneByThemselves:
    async def test_logs_in_by_a_link_and_is_served_their_own(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at, at.client(at.ann) as client:
            assert [tool.name for tool in await client.list_tools()] == ["mail_login"]
            await log_in(await asked(client), at.ann, at_mail="ann@mail")
            assert await told(client) == (False, LOGGED_IN)
            assert [tool.name for tool in await client.list_tools()] == ["mail_read"]
            assert (await client.call_tool("mail_read")).data == "mail of ann@mail"

    @every("era", ERAS)
    async def test_is_asked_by_url_where_their_client_can_be(self, tmp_path: Path, era: str) -> None:
        opened: list[str] = []

        async def open_it(message: str, kind: Any, params: Any, context: Any) -> ElicitResult:
            assert isinstance(params, ElicitRequestURLParams)
            opened.append(params.url)
            await log_in(params.url, at.ann, at_mail="ann@mail")
            return ElicitResult(action="accept")

        async with office(tmp_path) as at, at.client(at.ann, mode=era, elicitation_handler=open_it) as client:
            assert await told(client) == (False, LOGGED_IN)
            assert (await client.call_tool("mail_read")).data == "mail of ann@mail"
            assert len(opened) == 1

    async def test_is_asked_once_for_calls_that_come_together(self, tmp_path: Path) -> None:
        asked_for: list[str] = []

        async def open_it(message: str, kind: Any, params: Any, context: Any) -> ElicitResult:
            asked_for.append(params.url)
            await log_in(params.url, at.ann, at_mail="ann@mail")
            return ElicitResult(action="accept")

        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            at.issuer.end()
            async with at.client(at.ann, mode="legacy", elicitation_handler=open_it) as client:
                answers = await asyncio.gather(*(told(client, "mail_read") for _ in range(5)))
            assert set(answers) == {(False, "mail of ann@mail")}
            assert len(asked_for) == 1

    @every("era", ERAS)
    async def test_is_told_the_link_where_they_decline(self, tmp_path: Path, era: str) -> None:
        async def decline(*_: Any) -> ElicitResult:
            return ElicitResult(action="decline")

        async with office(tmp_path) as at, at.client(at.ann, mode=era, elicitation_handler=decline) as client:
            is_error, text = await told(client)
            assert is_error
            assert "declined" in text
            assert link_in(text)

    async def test_is_asked_again_when_their_login_has_ended_and_then_their_call_goes_on(self, tmp_path: Path) -> None:
        async def open_it(message: str, kind: Any, params: Any, context: Any) -> ElicitResult:
            await log_in(params.url, at.ann, at_mail="ann@mail")
            return ElicitResult(action="accept")

        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            at.issuer.end()
            async with at.client(at.ann, elicitation_handler=open_it) as client:
                assert [tool.name for tool in await client.list_tools()] == ["mail_read"]
                assert (await client.call_tool("mail_read")).data == "mail of ann@mail"

    async def test_is_told_in_the_list_that_a_login_is_wanted_and_may_not_keep_it(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at, at.client(at.ann, mode="2026-07-28") as client:
            listed = await client.list_tools_mcp()
            assert listed.meta is not None
            assert listed.meta["agent-utilities/selection"]["wants_login"] == ["mail"]
            assert (listed.ttl_ms, listed.cache_scope) == (0, "private")


class TestTwo:
    async def test_each_see_their_own(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            await logged_in(at, at.bob, "bob@mail")
            async with at.client(at.ann) as ann, at.client(at.bob) as bob:
                calls = [client.call_tool("mail_read") for client in 20 * [ann, bob]]
                read = [answer.data for answer in await asyncio.gather(*calls)]
            assert read == 20 * ["mail of ann@mail", "mail of bob@mail"]

    async def test_whose_lists_are_made_side_by_side_are_given_each_their_own(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            async with at.client(at.ann) as ann, at.client(at.bob) as bob:
                lists = await asyncio.gather(*(client.list_tools() for client in 20 * [ann, bob]))
                assert await told(bob, "mail_read") == (True, "Unknown tool: 'mail_read'")
            assert [[tool.name for tool in each] for each in lists] == 20 * [["mail_read"], ["mail_login"]]


class TestRenewal:
    async def test_of_fifty_calls_at_once_asks_the_issuer_once(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            async with at.client(at.ann) as ann:
                assert (await ann.call_tool("mail_read")).data == "mail of ann@mail"
                at.issuer.expire()
                answers = await asyncio.gather(*(ann.call_tool("mail_read") for _ in range(50)))
            assert {answer.data for answer in answers} == {"mail of ann@mail"}
            assert at.issuer.counts["refresh"] == 1

    async def test_goes_on_where_who_asked_for_it_waits_no_more(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            at.issuer.expire()
            at.issuer.may_answer.clear()
            async with at.client(at.ann) as ann:
                given_up = asyncio.ensure_future(ann.call_tool("mail_read"))
                await at.issuer.was_asked.wait()
                given_up.cancel()
                await asyncio.wait([given_up])
                at.issuer.may_answer.set()
                assert await told(ann, "mail_read") == (False, "mail of ann@mail")
            assert at.issuer.counts["refresh"] == 1

    async def test_is_made_by_the_next_process_without_another_login(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            at.issuer.expire()
            async with at.restarted() as again, again.client(at.ann) as client:
                assert [tool.name for tool in await client.list_tools()] == ["mail_read"]
                assert (await client.call_tool("mail_read")).data == "mail of ann@mail"
            assert at.issuer.counts["refresh"] == 1


class TestWhoIsNotKnown:
    async def test_is_told_why_they_are_not_served(self, tmp_path: Path) -> None:
        async with office(tmp_path, MCP_AUTH_TOKENS="") as at, Client(f"{at.url}/mcp") as client:
            assert [tool.name for tool in await client.list_tools()] == ["mail_login"]
            is_error, text = await told(client)
            assert is_error
            assert "it is not known who you are" in text


async def sealed(at: Office, n: int) -> set[Path]:
    """Return what is kept, once so much is: of a login, and of the list that it led to, which no event tells."""
    found = set[Path]()
    while len(found) < n:
        await asyncio.sleep(0.01)
        found = set(at.kept.glob("*.sealed"))
    return found


class TestTheOperator:
    async def test_finds_no_token_and_no_name_of_anybody_in_what_is_kept(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            tokens = [*at.issuer.access_tokens, *at.issuer.refresh_tokens]
        kept = {path: path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file()}
        assert len(list(at.kept.iterdir())) == 2
        for secret in (*tokens, "ann@mail"):
            assert [path for path, content in kept.items() if secret.encode() in content] == []
        assert "ann" not in json.dumps([path.name for path in kept])
        assert {path.stat().st_mode & 0o777 for path in at.kept.iterdir()} == {0o600}
        assert at.kept.stat().st_mode & 0o777 == 0o700

    async def test_can_shuffle_what_is_kept_and_gives_nobody_anothers_account_by_that(self, tmp_path: Path) -> None:
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            of_ann = await sealed(at, 2)
            await logged_in(at, at.bob, "bob@mail")
            of_bob = await sealed(at, 4) - of_ann
            kept = {path: path.read_bytes() for path in of_ann | of_bob}
            for is_reversed in (False, True):  # so that each of hers and each of his change places once
                for ours, theirs in zip(sorted(of_ann), sorted(of_bob, reverse=is_reversed), strict=True):
                    ours.write_bytes(kept[theirs])
                    theirs.write_bytes(kept[ours])
                async with at.restarted() as again:
                    assert not await served_another(again)
            for path, content in kept.items():
                path.write_bytes(content)
            async with at.restarted() as again, again.client(again.bob) as bob:
                assert await told(bob, "mail_read") == (False, "mail of bob@mail")

    async def test_finds_each_login_in_the_record(self, tmp_path: Path) -> None:
        record = tmp_path / "record.jsonl"
        async with office(tmp_path, MCP_AUDIT_FILE=str(record)) as at:
            await logged_in(at, at.ann, "ann@mail")
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        (login,) = [line for line in lines if line.get("event") == "login" and "upstream" in line]
        assert (login["issuer"], login["subject"], login["upstream"]) == ("local", "ann", "mail")
        tokens = [*at.issuer.access_tokens, *at.issuer.refresh_tokens, at.ann]
        assert [token for token in tokens if token in record.read_text()] == []

    async def test_who_denies_the_server_has_nobody_learn_of_it(self, tmp_path: Path) -> None:
        async with office(tmp_path, MCP_DISABLED_TOOLS="mail") as at, at.client(at.ann, mode="2026-07-28") as client:
            listed = await client.list_tools_mcp()
            assert listed.tools == []
            assert "wants_login" not in (listed.meta or {})["agent-utilities/selection"]
            texts = [(await told(client, name))[1] for name in ("mail_login", "never_login")]
            assert texts[0].replace("mail", "X") == texts[1].replace("never", "X")

    async def test_finds_no_token_and_nobodys_lists_in_logs_metrics_and_what_is_ready(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG):
            async with office(tmp_path) as at:
                await logged_in(at, at.ann, "ann@mail")
                async with at.client(at.ann) as ann:
                    assert await told(ann, "mail_read") == (False, "mail of ann@mail")
                    at.issuer.expire()
                    assert await told(ann, "mail_read") == (False, "mail of ann@mail")
                tokens = [*at.issuer.access_tokens, *at.issuer.refresh_tokens, at.ann]
                async with httpx2.AsyncClient(headers={"authorization": f"Bearer {at.bob}"}) as web:
                    metrics, ready = [(await web.get(f"{at.url}/{page}")).text for page in ("metrics", "ready")]
        ours = "\n".join(each.getMessage() for each in caplog.records if each.name.startswith("agent_utilities"))
        assert "mail_read" in ours  # so that it is known to be looked at
        for text in (caplog.text, metrics, ready):
            assert [token for token in tokens if token in text] == []
        assert "mail_read" not in metrics + ready
        assert json.loads(ready)["upstreams"] == {"mail": {"state": "per caller"}}


async def served_another(at: Office) -> bool:
    """Whether anybody is served with somebody else's account."""
    for token, account in ((at.ann, "ann@mail"), (at.bob, "bob@mail")):
        async with at.client(token) as client:
            is_error, text = await told(client, "mail_read")
            if not is_error and text != f"mail of {account}":
                return True
    return False


@contextmanager
def as_caller(token: AccessToken) -> Iterator[None]:
    """Do in a block what a request of somebody's does."""
    before = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(before)


class TestSearch:
    async def test_is_not_needed_for_what_is_ones_own_and_no_index_holds_it(self, tmp_path: Path) -> None:
        async with office(tmp_path, MCP_TOOL_SEARCH="on") as at:
            at.gateway.tool(name="clock")(lambda: "noon")
            await logged_in(at, at.ann, "ann@mail")
            own = ["tool_search", "call_tool", "mail_read"]
            for query in ("", "?q=read+my+mail", "?q=nothing+of+the+kind"):
                async with Client(StreamableHttpTransport(f"{at.url}/mcp{query}", auth=at.ann)) as ann:
                    assert [tool.name for tool in await ann.list_tools()] == own
                    await ann.call_tool("tool_search", {"query": "read mail"})
            with as_caller(await at.gateway.auth.verify_token(at.ann)):  # as where her query has it made
                documents = (await query_of(at.gateway).introspection.live_tools()).documents
                assert [each.name for each in documents] == ["clock"]
                assert {tool.name for tool in await at.gateway.list_tools()} == {"clock", "mail_read"}
            async with Client(StreamableHttpTransport(f"{at.url}/mcp?q=read+my+mail", auth=at.bob)) as bob:
                assert [tool.name for tool in await bob.list_tools()] == ["mail_login", *own[:2]]
                assert "mail_read" not in str(await bob.call_tool("tool_search", {"query": "read mail"}))


class TestTheirHost:
    async def test_is_told_that_its_list_changed(self, tmp_path: Path) -> None:
        changed = asyncio.Event()

        async def heard(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                changed.set()

        async with office(tmp_path) as at:
            options = {"mode": "legacy", "message_handler": heard}
            async with at.client(at.ann, **options) as ann, at.client(at.bob) as bob:
                assert [tool.name for tool in await ann.list_tools()] == ["mail_login"]
                link = await asked(ann)
                changed.clear()
                await log_in(link, at.ann, at_mail="ann@mail")
                await asyncio.wait_for(changed.wait(), 20)
                assert [tool.name for tool in await ann.list_tools()] == ["mail_read"]
                assert [tool.name for tool in await bob.list_tools()] == ["mail_login"]


class TestManyPeople:
    async def test_are_held_in_measure_and_those_who_come_back_are_served_as_before(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("agent_utilities.gateway.logins.feature.N_PEOPLE", 1)
        async with office(tmp_path) as at:
            await logged_in(at, at.ann, "ann@mail")
            await logged_in(at, at.bob, "bob@mail")
            for token, account in 2 * [(at.ann, "ann@mail"), (at.bob, "bob@mail")]:
                async with at.client(token) as client:
                    assert await told(client, "mail_read") == (False, f"mail of {account}")
