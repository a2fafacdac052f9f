"""An issuer for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.access.local_issuer import LocalIssuer


@pytest.fixture
def issuer() -> Iterator[LocalIssuer]:
    made = LocalIssuer()
    yield made
    made.down()
