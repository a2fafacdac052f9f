"""How people are asked to log in, and what they are told where they do not, or not in time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import mcp_types
import pytest
from mcp_types import ElicitRequestURLParams, ElicitResult

from agent_utilities.gateway.logins import asking
from agent_utilities.gateway.logins.asking import OwnLogin
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from tests.every import every
from tests.gateway.logins.gateways import LOGGED_IN, link_in, log_in, logged_in, office, told

pytestmark = [pytest.mark.anyio, pytest.mark.outside]
ERAS = ("legacy", "2026-07-28")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def accept(*_: Any) -> ElicitResult:
    return ElicitResult(action="accept")


@every("era", ERAS)
async def test_who_says_yes_and_does_not_log_in_is_told_where_to_go_on(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 0.1)
    async with office(tmp_path) as at, at.client(at.ann, mode=era, elicitation_handler=accept) as client:
        is_error, text = await told(client)
        assert is_error
        assert "it wants your own login: it is not done yet; go on at http" in text
        await log_in(link_in(text), at.ann, at_mail="ann@mail")
        assert await told(client) == (False, LOGGED_IN)


async def test_whose_host_never_answers_is_told_the_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LOGIN_S", 0.2)

    async def never(*_: Any) -> ElicitResult:
        await asyncio.Event().wait()
        raise AssertionError

    async with office(tmp_path) as at, at.client(at.ann, mode="legacy", elicitation_handler=never) as client:
        is_error, text = await told(client)
        assert is_error
        assert link_in(text)
        assert (await told(client))[0]  # and is asked again with the next call


async def test_whose_host_cannot_open_links_is_told_the_link_alone(tmp_path: Path) -> None:
    async with office(tmp_path) as at, at.client(at.ann) as client:
        is_error, text = await told(client)
        assert is_error
        assert "it wants your own login: open http" in text
        assert text.endswith(" in your browser, and then call again")
        assert link_in((await told(client))[1]) == link_in(text)  # the same one, until it was used


@every(
    ("cause", "detail", "why"),
    [
        ("refused", "connection refused", "upstream 'mail' refused: connection refused"),
        ("", "", "upstream 'mail' did not answer: it has listed nothing yet"),
    ],
)
async def test_who_is_logged_in_is_told_why_nothing_is_listed(cause: str, detail: str, why: str) -> None:
    has_login = asyncio.Event()
    has_login.set()
    given: dict[str, Any] = {"transport": "http", "url": "http://127.0.0.1:9/mcp", "list_timeout_s": 0.01}
    upstream = SimpleNamespace(
        config=UpstreamConfig(name="mail", source="mcp.json", **given),
        was_tried=asyncio.Event(),
        snapshot=None,
        state=SimpleNamespace(cause=cause, detail=detail),
    )
    login = OwnLogin(cast(Any, upstream), cast(Any, SimpleNamespace(has_login=has_login)), cast(Any, None))
    result = await login.answer({})
    (content,) = result.content
    assert isinstance(content, mcp_types.TextContent)
    assert content.text == why


@every("era", ERAS)
async def test_is_asked_in_words_with_the_link_that_they_are_to_open(era: str, tmp_path: Path) -> None:
    asked: list[ElicitRequestURLParams] = []

    async def decline(message: str, kind: Any, params: Any, context: Any) -> ElicitResult:
        asked.append(params)
        return ElicitResult(action="cancel")

    async with office(tmp_path) as at, at.client(at.ann, mode=era, elicitation_handler=decline) as client:
        is_error, text = await told(client)
        (question,) = asked
        assert (question.message, question.url) == ("Log in at mail with your own account", link_in(text))
        assert question.url.endswith(question.elicitation_id or "")  # which only handshakes have
        assert (is_error, "it was declined; to log in after all open" in text) == (True, True)


async def test_whose_login_ended_elsewhere_meanwhile_is_served_by_the_one_that_was_made_since(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        await logged_in(at, at.ann, "ann@mail")
        async with at.client(at.ann) as client:
            assert await told(client, "mail_read") == (False, "mail of ann@mail")
            at.issuer.end()
            async with at.restarted() as again, again.client(again.ann) as other:
                text = (await told(other, "mail_read"))[1]
                await log_in(link_in(text), again.ann, at_mail="ann@mail")
                assert await told(other, "mail_read") == (False, "mail of ann@mail")
            assert await told(client, "mail_read") == (False, "mail of ann@mail")


async def test_who_is_not_logged_in_is_completed_nothing(tmp_path: Path) -> None:
    async with office(tmp_path) as at:
        await logged_in(at, at.ann, "ann@mail")
        at.issuer.end()
        async with at.client(at.ann) as client:
            assert (await told(client, "mail_read"))[0]
            reference = mcp_types.PromptReference(type="ref/prompt", name="mail_none")
            completed = await client.complete(reference, {"name": "a", "value": ""})
            assert completed.values == []
