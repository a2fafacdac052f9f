"""Whom a request counts for: no claims of one caller are those of another."""

from __future__ import annotations

from typing import Any

import pytest
from fastmcp.server.auth import AccessToken

from agent_utilities.usage import feature as subject
from tests.every import every


def key(monkeypatch: pytest.MonkeyPatch, client_id: str = "app", **claims: Any) -> str | None:
    token = AccessToken(token="t", client_id=client_id, scopes=[], claims=claims)
    monkeypatch.setattr(subject, "get_access_token", lambda: token)
    return subject.subject_of_request()


@every(
    ("one", "other"),
    [
        ({"iss": "a\0b", "sub": "c"}, {"iss": "a", "sub": "b\0c"}),
        ({"iss": "a", "sub": "c"}, {"iss": "b", "sub": "c"}),
        ({"sub": "app"}, {}),
        ({"sub": "c", "iss": None}, {"sub": "c", "iss": "None"}),
        ({"sub": "['c']"}, {"sub": ["c"]}),
        ({"sub": "\ud800"}, {"sub": "?"}),
    ],
)
def test_two_subjects_are_two(monkeypatch: pytest.MonkeyPatch, one: dict[str, Any], other: dict[str, Any]) -> None:
    assert key(monkeypatch, **one) != key(monkeypatch, **other)


def test_a_subject_is_the_same_with_every_token_and_client(monkeypatch: pytest.MonkeyPatch) -> None:
    first = key(monkeypatch, iss="a", sub="c", exp=1)
    assert first == key(monkeypatch, "other", sub="c", iss="a", exp=2)
