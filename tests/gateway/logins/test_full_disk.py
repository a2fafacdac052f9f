"""A folder that takes nothing more: a login goes on with what is known of it, and not with what was kept before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_utilities.gateway.upstreams.sealed_store import SealedStore
from tests.gateway.logins.gateways import logged_in, office, told

pytestmark = [pytest.mark.anyio, pytest.mark.outside]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_login_is_renewed_by_its_newest_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    async with office(tmp_path) as at:
        await logged_in(at, at.ann, "ann@mail")
        monkeypatch.setattr(SealedStore, "save", refuse)
        async with at.client(at.ann) as ann:
            for n_renewed in (1, 2):
                at.issuer.expire()
                assert await told(ann, "mail_read") == (False, "mail of ann@mail")
                assert at.issuer.counts["refresh"] == n_renewed
