"""What anybody may send to a server before it knows them: forms, and the cookies of browsers."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from agent_utilities.gateway.logins.browser import Cookie, form_of, is_of_own_page, own_origin
from tests.every import every

pytestmark = pytest.mark.anyio
OWN = "http://127.0.0.1:8001"


def posted(body: bytes = b"", *pieces: bytes, **headers: str) -> Request:
    """Return a request that brings a form, in one piece or in several."""
    left = [body, *pieces]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    told = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": told}, receive)


class TestForm:
    async def test_has_blank_fields_and_any_text(self) -> None:
        assert await form_of(posted(b"a=1&b=&c=%C3%A4+b"), 100) == {"a": "1", "b": "", "c": "ä b"}

    async def test_is_read_in_pieces(self) -> None:
        assert await form_of(posted(b"a=1", b"2&b", b"=3"), 8) == {"a": "12", "b": "3"}

    async def test_of_too_many_bytes_has_none(self) -> None:
        assert await form_of(posted(b"a=" + b"1" * 98), 100) == {"a": "1" * 98}
        assert await form_of(posted(b"a=" + b"1" * 99), 100) == {}

    async def test_of_too_many_fields_has_none(self) -> None:
        def fields(n: int) -> Request:
            return posted(b"&".join(b"a%d=1" % i for i in range(n)))

        assert len(await form_of(fields(1000), 1 << 20)) == 1000
        assert await form_of(fields(1001), 1 << 20) == {}

    async def test_that_is_no_utf_8_is_read_all_the_same(self) -> None:
        assert await form_of(posted(b"a=\xff"), 100) == {"a": "\ufffd"}


class TestFormOfOnesOwnPage:
    @every("headers", [{"origin": OWN}, {"origin": OWN.upper()}, {"sec_fetch_site": "same-origin"}, {}])
    def test_is_taken(self, headers: dict[str, str]) -> None:
        assert is_of_own_page(posted(**headers), OWN)

    @every("headers", [
        {"origin": "http://127.0.0.1:9999"}, {"origin": "http://127.0.0.1"}, {"origin": "https://127.0.0.1:8001"},
        {"origin": "http://localhost:8001"}, {"origin": "null"}, {"origin": ""}, {"origin": f"{OWN}/"},
        {"origin": f"{OWN}.evil.example"}, {"origin": "http://[::1]:8001"},
        {"origin": "http://127.0.0.1:9999", "sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "same-site"}, {"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "none"},
    ])  # fmt: skip
    def test_is_no_other_ones(self, headers: dict[str, str]) -> None:
        assert not is_of_own_page(posted(**headers), OWN)

    def test_is_of_the_origin_that_people_reach_it_by(self) -> None:
        request = posted(host="gateway.lan:8001")
        told = [own_origin(base, request) for base in ("", "https://Gateway.example/git", "https://gateway.example")]
        assert told == ["http://gateway.lan:8001", *["https://gateway.example"] * 2]


class TestCookie:
    def test_is_seen_by_no_script_and_no_other_host_can_set_it_over_https(self) -> None:
        set_by = {}
        for origin in (OWN, "https://gateway.example", "https://gateway.example:8443"):
            answer = Response()
            Cookie("page", "strict", origin, 600.0).set(posted(), answer, "known")
            set_by[origin] = answer.headers["set-cookie"]
        parts = "HttpOnly; Max-Age=600; Path=/; SameSite=strict"
        assert set_by == {
            OWN: f"agent-utilities-page-8001=known; {parts}",
            "https://gateway.example": f"__Host-agent-utilities-page-https=known; {parts}; Secure",
            "https://gateway.example:8443": f"__Host-agent-utilities-page-8443=known; {parts}; Secure",
        }

    def test_of_another_port_is_another_one(self) -> None:
        request = posted(cookie="agent-utilities-login-8001=known")
        found = [Cookie("login", "lax", base).of(request) for base in (OWN, "http://127.0.0.1:8002")]
        assert found == ["known", ""]
