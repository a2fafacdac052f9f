"""Opaque tokens that strangers make up hold up nobody who has a good one, and cost the issuer little."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from agent_utilities.access import oidc, refusals
from agent_utilities.access.oidc import OPAQUE_S, OidcVerifier
from agent_utilities.access.refusals import Reason, TellsWhy, sender
from tests.access.local_issuer import LocalIssuer
from tests.access.verifying import Clock, verdict, verifier_of
from tests.every import every
from tests.fleet.processes.replicas import until

pytestmark = [pytest.mark.anyio, pytest.mark.outside]

CLIENT = ("gateway", "secret")


async def asked(verifier: OidcVerifier, token: str, address: str = "") -> Reason | None:
    """Return why a token from an address is refused."""
    sender.set(address)
    return await verdict(verifier, token)


def good(issuer: LocalIssuer, token: str) -> None:
    issuer.introspected[token] = {"active": True, **issuer.claims(iss=None)}


@asynccontextmanager
async def flood(
    verifier: OidcVerifier, issuer: LocalIssuer, n_at_once: int, *addresses: str
) -> AsyncIterator[list[asyncio.Task[Reason | None]]]:
    """Have 20 strangers at each address send tokens that they made up, to an issuer that does not answer."""
    issuer.answers_strangers.clear()
    tokens = [(f"junk-{address}-{n}", address) for n in range(20) for address in addresses]
    tasks = [asyncio.create_task(asked(verifier, token, address)) for token, address in tokens]
    try:
        await until(lambda: len(issuer.waiting) == n_at_once)
        yield tasks
        assert len(issuer.waiting) <= n_at_once
    finally:
        for task in tasks:
            task.cancel()
        issuer.answers_strangers.set()
        await asyncio.wait(tasks)


async def test_who_was_let_in_before_is_asked_about_at_once(issuer: LocalIssuer) -> None:
    clock = Clock()
    verifier = verifier_of(issuer, client=CLIENT, clock=clock)
    for n in range(8):
        good(issuer, f"good-{n}")
        assert await asked(verifier, f"good-{n}", "a") is None
    clock.now += OPAQUE_S
    async with flood(verifier, issuer, 4, "a", "b", "c"):
        answers = await asyncio.gather(*(asked(verifier, f"good-{n}", "a") for n in range(8)))
    assert answers == [None] * 8


async def test_who_comes_first_waits_for_nobody_at_another_address(issuer: LocalIssuer) -> None:
    verifier = verifier_of(issuer, client=CLIENT)
    good(issuer, "new")
    async with flood(verifier, issuer, 2, "a"):
        assert await asked(verifier, "new", "b") is None


async def test_who_waits_too_long_is_told_to_try_again(issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = verifier_of(issuer, client=CLIENT)
    async with flood(verifier, issuer, 2, "a"):
        monkeypatch.setattr(oidc, "_WAIT_S", 0.05)
        assert await asked(verifier, "another", "a") is refusals.UNREACHABLE
        assert not verifier.issuer.trouble


async def test_one_that_is_no_good_any_more_goes_before_nobody(
    issuer: LocalIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    verifier = verifier_of(issuer, client=CLIENT, clock=clock)
    good(issuer, "revoked")
    assert await asked(verifier, "revoked", "a") is None
    issuer.introspected.clear()
    clock.now += OPAQUE_S
    assert await asked(verifier, "revoked", "a") is refusals.INACTIVE
    clock.now += oidc._REFUSED_S
    async with flood(verifier, issuer, 2, "a"):
        monkeypatch.setattr(oidc, "_WAIT_S", 0.05)
        assert await asked(verifier, "revoked", "a") is refusals.UNREACHABLE


async def test_requests_with_one_token_ask_once(issuer: LocalIssuer) -> None:
    verifier = verifier_of(issuer, client=CLIENT)
    good(issuer, "new")
    answers = await asyncio.gather(*(asked(verifier, "new") for _ in range(10)))
    assert (answers, issuer.asked["/introspect"]) == ([None] * 10, 1)


async def test_requests_with_one_token_that_is_no_good_ask_once(issuer: LocalIssuer) -> None:
    verifier = verifier_of(issuer, client=CLIENT)
    answers = await asyncio.gather(*(asked(verifier, "junk") for _ in range(10)))
    assert (answers, issuer.asked["/introspect"]) == ([refusals.INACTIVE] * 10, 1)


async def test_what_was_refused_is_asked_about_again_in_seconds(issuer: LocalIssuer) -> None:
    clock = Clock()
    verifier = verifier_of(issuer, client=CLIENT, clock=clock)
    assert await asked(verifier, "new") is refusals.INACTIVE
    good(issuer, "new")
    assert await asked(verifier, "new") is refusals.INACTIVE
    clock.now += oidc._REFUSED_S
    assert await asked(verifier, "new") is None
    assert issuer.asked["/introspect"] == 2


async def test_an_answer_that_is_none_is_not_remembered(issuer: LocalIssuer) -> None:
    verifier = verifier_of(issuer, client=CLIENT)
    good(issuer, "new")
    assert await asked(verifier, "new") is None
    good(issuer, "other")
    issuer.down()
    try:
        assert await asked(verifier, "other") is refusals.UNREACHABLE
    finally:
        issuer.up()
    assert await asked(verifier, "other") is None


@every("token", ["", "a b", "ün", "a=b", "=", "a\n", "au_" + "x" * 40, "x" * 17_000, "{}", "a,b"])
async def test_what_can_be_no_token_of_an_issuer_costs_it_nothing(issuer: LocalIssuer, token: str) -> None:
    assert await asked(verifier_of(issuer, client=CLIENT), token) is refusals.UNREADABLE
    assert not issuer.asked


async def test_the_address_is_that_of_the_request() -> None:
    seen = []

    async def app(*_: object) -> None:
        seen.append(sender.get())

    for address in ("10.0.0.1", "2001:db8::1"):
        transport = httpx2.ASGITransport(app=TellsWhy(app), client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://x") as web:
            with pytest.raises(AssertionError):
                await web.get("/")  # the app answers nothing
    assert seen == ["10.0.0.1", "2001:db8::"]
