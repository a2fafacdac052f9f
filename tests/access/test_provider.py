"""Logins at a real OpenID provider, over real sockets: whoever logs in there lists and calls here."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from typing import IO, Any

import anyio
import httpx2
import pytest
from fastmcp import Client
from fastmcp.server.dependencies import get_access_token

from agent_utilities import AgentServer, create_mcp_server
from agent_utilities.access import refusals
from agent_utilities.access.feature import Login, login_of
from agent_utilities.access.proxy import Proxy
from agent_utilities.settings import Settings
from tests.access.local_issuer import signed
from tests.access.logged import everything_logged
from tests.access.provider import CLIENT, Person, Provider, browse, listening, serving, url_of
from tests.conformance import node

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.timeout(600)]

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
SERVERS_OWN = {"auth_client_id": CLIENT[0], "auth_client_secret": CLIENT[1]}
ANSWER = {"accept": "application/json, text/event-stream"}


def settings_of(issuer: str, base_url: str, **others: Any) -> Settings:
    return Settings.model_validate({"auth_issuer": issuer, "auth_base_url": base_url, **others})


def notes(login: Login | None) -> AgentServer:
    server = create_mcp_server("notes", auth=login, environ={"MCP_GRAPH": "off", "MCP_CONFIG_FILE": "none"})

    @server.tool
    def whoami() -> dict[str, Any]:
        token = get_access_token()
        assert token is not None
        return {"subject": token.subject, "client": token.client_id, "groups": token.claims.get("groups")}

    return server


class Place:
    """A server behind a login, and its provider."""

    def __init__(self, url: str, login: Login, provider: Provider) -> None:
        self.url, self.login, self.provider = url, login, provider

    async def logged_in(self, name: str = "ann") -> tuple[dict[str, Any], Person]:
        """Log in, list and call; return what the server says of the caller, and the person."""
        person = Person(self.url, name)
        async with Client(self.url, auth=person) as client:
            assert [tool.name for tool in await client.list_tools()] == ["whoami"]
            return (await client.call_tool("whoami")).data, person

    async def status(self, token: str) -> int:
        """Return the status of a list that is asked for with a token."""
        async with httpx2.AsyncClient(verify=False) as http:
            headers = {**ANSWER, "authorization": f"Bearer {token}"}
            return (await http.post(self.url, headers=headers, json=LIST)).status_code

    def minted(self, **changed: Any) -> str:
        """Return a token as the provider signs one, with its newest key."""
        key, now = self.provider.keys[0], int(time.time())
        claims = {"iss": self.provider.url, "sub": "ann", "aud": self.url, "exp": now + 600, "iat": now}
        return signed(key, {"alg": "ES256", "typ": "at+jwt", "kid": key.kid}, {**claims, **changed})


def token_of(person: Person) -> str:
    tokens = person.context.current_tokens
    assert tokens is not None
    return tokens.access_token


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Place]]:
    """Two servers of one provider: where clients register there, and where this server stands as its one client."""
    with pytest.MonkeyPatch.context() as patch, listening() as first, listening() as second:
        import fastmcp

        patch.setattr(fastmcp.settings, "home", tmp_path_factory.mktemp("home"))
        provider = Provider(tmp_path_factory.mktemp("keys"), f"{url_of(second)}/auth/callback")
        provider.start()
        try:
            open_login = login_of(settings_of(provider.url, url_of(first)))
            closed_login = login_of(settings_of(provider.closed_url, url_of(second), **SERVERS_OWN))
            assert open_login is not None
            assert closed_login is not None
            for login in (open_login, closed_login):
                login._verifier.issuer._retry_s = 0  # type: ignore[union-attr]
            with serving(notes(open_login), first) as one, serving(notes(closed_login), second) as other:
                yield Place(one, open_login, provider), Place(other, closed_login, provider)
        finally:
            provider.kill()


@pytest.fixture
def open_place(places: tuple[Place, Place]) -> Place:
    return places[0]


@pytest.fixture
def closed_place(places: tuple[Place, Place]) -> Place:
    return places[1]


class TestWhereClientsRegister:
    async def test_a_client_logs_in_by_itself_lists_and_calls(self, open_place: Place) -> None:
        said, person = await open_place.logged_in()
        assert person.context.client_info is not None
        assert said == {"subject": "ann", "client": person.context.client_info.client_id, "groups": ["interns"]}
        assert any(page.startswith(open_place.provider.url) for page in person.pages)

    async def test_a_token_for_one_server_is_refused_at_another(self, open_place: Place) -> None:
        _, person = await open_place.logged_in()
        with listening() as held:
            login = login_of(settings_of(open_place.provider.url, url_of(held)))
            with serving(notes(login), held) as url:
                other = Place(url, open_place.login, open_place.provider)
                assert await other.status(token_of(person)) == 401
        assert await open_place.status(token_of(person)) == 200

    async def test_opaque_tokens_are_asked_about_until_they_are_revoked(self, open_place: Place) -> None:
        provider = open_place.provider
        with listening() as held:
            login = login_of(settings_of(provider.url, url_of(held), **SERVERS_OWN))
            assert login is not None
            verifier = login._verifier
            assert verifier is not None
            with serving(notes(login), held, "/opaque") as url:
                place = Place(url, login, provider)
                said, person = await place.logged_in()
                token, client = token_of(person), person.context.client_info
                assert token.count(".") == 0
                assert client is not None
                assert said["client"] == client.client_id
                async with httpx2.AsyncClient(verify=False) as http:
                    form = {"token": token, "client_id": client.client_id}
                    (await http.post(f"{provider.url}/token/revocation", data=form)).raise_for_status()
                verifier._seen.clear()
                assert await place.status(token) == 401

    async def test_keys_rotated_under_load_refuse_nobody(self, open_place: Place) -> None:
        _, before = await open_place.logged_in("ann")
        statuses: list[int] = []
        rotated = anyio.Event()

        async def call(person: Person) -> None:
            for _ in range(10):
                statuses.append(await open_place.status(token_of(person)))
            await rotated.wait()
            for n in range(10):
                statuses.append(await open_place.status(token_of(person)))
                statuses.append(await open_place.status(open_place.minted(jti=str(n))))

        async with anyio.create_task_group() as calls:
            for _ in range(4):
                calls.start_soon(call, before)
            await anyio.to_thread.run_sync(open_place.provider.rotate)
            said, _ = await open_place.logged_in("eve")
            rotated.set()
        assert said["subject"] == "eve"
        assert set(statuses) == {200}
        assert len(statuses) == 4 * 30

    async def test_the_provider_killed_and_back(self, open_place: Place) -> None:
        login, provider = open_place.login, open_place.provider
        _, person = await open_place.logged_in()
        provider.kill()
        provider.add_key()
        new = open_place.minted()
        try:
            down = [await open_place.status(token_of(person)), await open_place.status(new)]
            trouble = login.trouble
        finally:
            await anyio.to_thread.run_sync(provider.start)
        assert down == [200, 503]
        assert trouble
        assert await open_place.status(new) == 200
        assert not login.trouble


class TestWhereThisServerIsTheOneClient:
    async def test_a_client_logs_in_through_it_and_is_told_as_itself(self, closed_place: Place) -> None:
        said, person = await closed_place.logged_in()
        assert person.context.client_info is not None
        assert said == {"subject": "ann", "client": person.context.client_info.client_id, "groups": ["interns"]}
        assert said["client"] != CLIENT[0]
        assert any("/consent" in page for page in person.pages)

    async def test_a_token_that_is_none_of_its_own_or_over_has_its_line(self, closed_place: Place) -> None:
        proxy = closed_place.login.server
        assert isinstance(proxy, Proxy)
        issue, told = proxy.jwt_issuer.issue_access_token, []
        own = [issue("editor", [], "gone"), issue("editor", [], "gone", expires_in=-1)]
        async with httpx2.AsyncClient(verify=False) as http:
            for token in (closed_place.minted(), "opaque", *own):
                headers = {**ANSWER, "authorization": f"Bearer {token}"}
                answer = await http.post(closed_place.url, headers=headers, json=LIST)
                told.append((answer.status_code, answer.json()["error"]["message"]))
        reasons = [refusals.NOT_FROM_HERE] * 2 + [refusals.LOGIN_ENDED, refusals.EXPIRED]
        assert told == [(401, reason.text) for reason in reasons]

    async def test_a_login_is_renewed_and_not_over_while_the_issuer_is_down(self, closed_place: Place) -> None:
        _, person = await closed_place.logged_in()
        tokens, client = person.context.current_tokens, person.context.client_info
        assert tokens is not None
        assert client is not None
        url, refresh_token = f"{closed_place.url.removesuffix('/mcp')}/token", tokens.refresh_token
        async with httpx2.AsyncClient(verify=False) as http:
            form = {"grant_type": "refresh_token", "client_id": client.client_id, "refresh_token": refresh_token}
            renewed = (await http.post(url, data=form)).json()
            assert await closed_place.status(renewed["access_token"]) == 200
            closed_place.provider.kill()
            try:
                down = await http.post(url, data={**form, "refresh_token": renewed["refresh_token"]})
            finally:
                await anyio.to_thread.run_sync(closed_place.provider.start)
        assert (down.status_code, "retry-after" in down.headers) == (503, True)

    async def test_an_end_that_nobody_can_put_off_while_the_issuer_is_down_is_no_401(
        self, closed_place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, person = await closed_place.logged_in()
        verifier = closed_place.login._verifier
        assert verifier is not None
        closed_place.login.server._seen.clear()  # type: ignore[union-attr]
        verifier._seen.clear()
        monkeypatch.setattr(verifier, "_clock", lambda: time.time() + 601)
        assert await closed_place.status(token_of(person)) == 401
        closed_place.provider.kill()
        try:
            assert await closed_place.status(token_of(person)) == 503
        finally:
            await anyio.to_thread.run_sync(closed_place.provider.start)


class TestOfficialSuite:
    """Its `authorization` scenarios: for what gives out tokens, as this server does where it is the one client."""

    METADATA, GRANT = "authorization-server-metadata-endpoint", "authorization-code-grant"

    def test_without_a_login_it_fails_what_it_looks_at(self) -> None:
        with listening() as held, serving(notes(None), held):
            suite = self._started(url_of(held))
            assert self._passed(suite.communicate(timeout=60)[0]) == {self.METADATA: False, self.GRANT: True}

    async def test_with_one_it_passes(self, closed_place: Place) -> None:
        with listening() as held:
            port = str(held.getsockname()[1])
        back, base = f"http://127.0.0.1:{port}/callback", closed_place.url.removesuffix("/mcp")
        async with httpx2.AsyncClient(verify=False) as http:
            asked = {"redirect_uris": [back], "token_endpoint_auth_method": "none", "client_name": "suite"}
            client = (await http.post(f"{base}/register", json=asked)).json()["client_id"]
            suite = self._started(base, "--client-id", client, "--port", port, "--resource", closed_place.url)
            assert suite.stdout is not None
            url = await anyio.to_thread.run_sync(self._asked_for, suite.stdout)
            await http.get(await browse(url.strip(), "ann", lambda url: url.startswith(back), []))
        said, _ = await anyio.to_thread.run_sync(suite.communicate)
        assert self._passed(said) == {self.METADATA: True, self.GRANT: True}, said
        assert f"{self.GRANT}: 1 passed" in said

    def _started(self, url: str, *options: str) -> subprocess.Popen[str]:
        command = [*node.conformance(), "authorization", "--url", url, *options]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def _asked_for(self, lines: IO[str]) -> str:
        return next((line for line in lines if line.startswith("http")), "nothing")

    def _passed(self, said: str) -> dict[str, bool]:
        """Return whether a scenario's checks passed; one that is skipped has none."""
        return {
            name: n_failed == "0"
            for name, n_failed in re.findall(r"(authorization-[\w-]+): \d+ passed, (\d+) failed", said)
        }


class TestSecrets:
    async def test_nothing_of_tokens_codes_and_secrets_is_logged_at_any_level(
        self, places: tuple[Place, Place]
    ) -> None:
        with everything_logged() as lines:
            people = [(await place.logged_in())[1] for place in places]
        text = "\n".join(lines)
        assert "Auth" in text
        for person in people:
            assert token_of(person) not in text
            assert token_of(person).split(".")[2] not in text
        assert CLIENT[1] not in text
