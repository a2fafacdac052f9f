"""Two people at one upstream that needs a login, it and the gateway behind a real OpenID provider."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from fastmcp import Client

from agent_utilities.access.feature import login_of
from tests.access.provider import Person, Provider
from tests.access.test_provider import notes, settings_of
from tests.gateway.logins.gateways import asked, gateway_at, told
from tests.gateway.logins.issuers import Browser, free_socket, on_socket

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(600)]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[Provider]:
    made = Provider(tmp_path, "http://127.0.0.1/unused")
    made.start()
    yield made
    made.kill()


async def through_the_provider(browser: Browser, provider: Provider, name: str) -> None:
    """Log in at the provider where it asks, and consent, until the browser is elsewhere."""
    while browser.url.startswith(provider.url):
        await browser.press(**({"login": name, "password": "any"} if 'name="login"' in browser.page else {}))


async def test_each_see_their_own_and_a_link_passed_on_binds_nobody(tmp_path: Path, provider: Provider) -> None:
    (mail_socket, mail_url), (gateway_socket, url) = free_socket(), free_socket()
    mail = notes(login_of(settings_of(provider.url, mail_url)))
    gateway = gateway_at(url, mail_url, tmp_path, {"MCP_AUTH_ISSUER": provider.url})
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(on_socket(mail.http_app(), mail_socket))
        await stack.enter_async_context(on_socket(gateway.http_app(), gateway_socket))
        ann, bob = [
            await stack.enter_async_context(Client(f"{url}/mcp", auth=Person(f"{url}/mcp", name)))
            for name in ("ann", "bob")
        ]
        links = {"ann": await asked(ann), "bob": await asked(bob)}
        for name, other in (("ann", "bob"), ("bob", "ann")):
            async with Browser() as theirs:
                await theirs.open(links[other])
                await theirs.press()
                await through_the_provider(theirs, provider, name)
                assert "This link is not yours" in theirs.page
        for name in ("ann", "bob"):
            async with Browser() as theirs:
                await theirs.open(links[name])
                await theirs.press()
                await through_the_provider(theirs, provider, name)
                assert f"You are {name} (" in theirs.page
                await theirs.press()
                await through_the_provider(theirs, provider, name)
                assert "You can close this page" in theirs.page
        for client in (ann, bob):
            assert await told(client) == (False, "You are logged in at mail, and its 1 tools are listed now.")
        people = [(await client.call_tool("mail_whoami")).data["subject"] for client in (ann, bob)]
        assert people == ["ann", "bob"]
