"""Which verifier a token goes to, and what an answer that refuses one keeps of what the application said."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent_utilities.access import refusals
from agent_utilities.access.feature import FileTokens, Login, login_of
from agent_utilities.access.refusals import TellsWhy, note
from agent_utilities.access.token_file import new_token
from agent_utilities.errors import SettingsError
from agent_utilities.settings import Settings
from tests.access.local_issuer import LocalIssuer
from tests.access.verifying import served, verdict, verifier_of
from tests.every import every

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


class TestFileAndIssuer:
    async def test_each_token_is_for_the_verifier_that_its_first_letters_tell(
        self, issuer: LocalIssuer, tmp_path: Path
    ) -> None:
        path = tmp_path / "tokens.json"
        texts = [new_token(path, "bot"), issuer.token(), "au_of-nobody"]
        # A token of the file has no scopes, and needs none.
        async with served(verifier_of(issuer, scopes=["read"]), FileTokens(path)) as ask:
            bot, ann, nobody = [await ask(text) for text in texts]
        told = [response.json()["result"]["structuredContent"] for response in (bot, ann)]
        assert [(each["subject"], each["client"]) for each in told] == [("bot", "bot"), ("ann", "editor")]
        assert (nobody.status_code, nobody.json()["error_description"]) == (401, refusals.UNKNOWN.text)
        assert issuer.asked["/introspect"] == 0

    async def test_a_token_of_the_file_is_taken_while_the_issuer_is_down(
        self, issuer: LocalIssuer, tmp_path: Path
    ) -> None:
        path = tmp_path / "tokens.json"
        text = new_token(path, "bot")
        issuer.down()
        async with served(verifier_of(issuer), FileTokens(path)) as ask:
            assert (await ask(text)).status_code == 200
        issuer.up()

    async def test_without_an_issuer_the_file_is_all_there_is(self, issuer: LocalIssuer, tmp_path: Path) -> None:
        path = tmp_path / "tokens.json"
        text = new_token(path, "bot")
        login = Login(FileTokens(path))
        found = [await login.verify_token(each) for each in (text, issuer.token())]
        assert [each and each.subject for each in found] == ["bot", None]


class TestFile:
    async def test_tells_a_token_that_has_expired_from_one_that_it_does_not_have(self, tmp_path: Path) -> None:
        path = tmp_path / "tokens.json"
        ended, taken = new_token(path, "ann", valid_for="1h"), new_token(path, "bob", valid_for="1h")
        held = json.loads(path.read_text())
        held["tokens"][0]["expires"] = "2026-01-01T00:00:00Z"
        path.write_text(json.dumps(held))
        tokens = FileTokens(path)
        told = [await verdict(tokens, text) for text in (ended, "au_of-nobody")]
        assert told == [refusals.EXPIRED, refusals.UNKNOWN]
        assert await verdict(tokens, taken) is None

    async def test_takes_none_that_another_replica_has_revoked(self, tmp_path: Path) -> None:
        path = tmp_path / "tokens.json"
        text = new_token(path, "ann")
        tokens = FileTokens(path, lambda digest: digest == sha256(text.encode()).hexdigest())
        assert await verdict(tokens, text) is refusals.UNKNOWN
        assert tokens.taken() == frozenset()


class TestAnswer:
    async def answer(self, response: Response) -> httpx2.Response:
        async def refuse(_: Request) -> Response:
            note(refusals.EXPIRED)
            return response

        app = Starlette(routes=[Route("/", refuse)], middleware=[Middleware(TellsWhy)])
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://x") as http:
            return await http.get("/")

    async def test_what_the_challenge_says_besides_stays(self) -> None:
        challenge = 'Bearer error="old", error_description="old, and long", scope="a b", resource_metadata="http://x/y"'
        answer = await self.answer(Response(status_code=401, headers={"www-authenticate": challenge}))
        assert answer.headers["www-authenticate"] == (
            'Bearer error="invalid_token", error_description="the token has expired", '
            'scope="a b", resource_metadata="http://x/y"'
        )

    @every(
        ("status", "headers"), [(401, {}), (401, {"www-authenticate": "Basic"}), (403, {"www-authenticate": "Bearer"})]
    )
    async def test_any_other_answer_is_left_as_it_is(self, status: int, headers: dict[str, str]) -> None:
        answer = await self.answer(JSONResponse({"error": "invalid_client"}, status, headers))
        assert (answer.status_code, answer.json()) == (status, {"error": "invalid_client"})
        assert answer.headers.get("www-authenticate") == headers.get("www-authenticate")

    def test_every_reason_is_one_line_that_a_header_may_hold(self) -> None:
        reasons = [value for value in vars(refusals).values() if isinstance(value, refusals.Reason)]
        assert len(reasons) > 20
        assert [each for each in reasons if not each.text.isprintable() or {'"', "\\"} & {*each.text}] == []
        assert len({each.text for each in reasons}) == len(reasons)


class TestSettings:
    @every(
        ("changed", "told"),
        [
            ({"auth_base_url": ""}, "the issuer's tokens are for nobody"),
            ({"auth_issuer": "login.example"}, "not a URL that will do: 'login.example'"),
            ({"auth_issuer": "https://ann:secret@login.example"}, "not a URL that will do: 'login.example'"),
            ({"auth_issuer": "", "auth_audience": "x"}, "nothing is verified by it: 'auth_audience'"),
            ({"auth_client_id": "x"}, "auth_client_id and auth_client_secret go together"),
            (
                {"auth_issuer": "http://127.0.0.1:1", "auth_client_id": "x", "auth_client_secret": "y"},
                "the issuer can't be asked: 'http://127.0.0.1:1'",
            ),
        ],
    )
    def test_what_can_not_be_served_is_refused(self, changed: dict[str, Any], told: str) -> None:
        given = {"auth_issuer": "https://login.example", "auth_base_url": "https://tools.example", **changed}
        with pytest.raises(SettingsError, match=told):
            login_of(Settings.model_validate(given))

    def test_an_issuer_over_plain_http_is_told(self, caplog: pytest.LogCaptureFixture) -> None:
        for issuer in ("https://login.example", "http://127.0.0.1:1", "http://login.example"):
            assert login_of(Settings(auth_issuer=issuer, auth_base_url="https://tools.example")) is not None
        assert [record.args for record in caplog.records] == [("http://login.example",)]

    def test_without_any_there_is_no_login(self) -> None:
        assert login_of(Settings()) is None
