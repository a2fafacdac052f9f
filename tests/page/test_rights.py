"""Every panel and every button there is, for who has the right, who has another, and who has none."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from agent_utilities.page.site import PANELS
from tests.access.team import Team
from tests.page.looking import ORIGIN, form_key, logged_in
from tests.page.test_door import TEAM
from tests.server.in_process import web_of

pytestmark = pytest.mark.anyio
PATHS = ["/", *(f"/page/{name}" for name in PANELS)]
ACTIONS = [f"/page/{panel.name}/{name}" for panel in PANELS.values() for name in panel.actions]


def test_there_are_some() -> None:
    assert len(PATHS) > 4
    assert len(ACTIONS) > 4


async def statuses(web: httpx2.AsyncClient, paths: list[str]) -> set[int]:
    return {(await web.get(path)).status_code for path in paths}


async def pressed(web: httpx2.AsyncClient, key: str) -> set[int]:
    forms = {"form_key": key, "server": "a", "key": "a"}
    return {(await web.post(path, data=forms, headers=ORIGIN)).status_code for path in [*ACTIONS, "/page/tool"]}


async def test_who_reads_presses_nothing(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    token = team.token("bob")["authorization"].removeprefix("Bearer ")
    async with logged_in(team.server(), token) as web:
        key = await form_key(web, "/")
        assert 403 not in await statuses(web, PATHS)
        assert await statuses(web, ACTIONS) == {403}
        assert await pressed(web, key) == {403}


async def test_who_has_neither_right_sees_and_presses_nothing(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    token = team.token("eve")["authorization"].removeprefix("Bearer ")
    async with web_of(team.server()) as web:
        web.headers["authorization"] = f"Bearer {token}"
        assert await statuses(web, [*PATHS, *ACTIONS, "/page/calls/events"]) == {403}
        assert await pressed(web, "") == {403}


async def test_who_operates_is_not_kept_from_any(tmp_path: Path) -> None:
    team = Team(tmp_path, TEAM)
    token = team.token("ann")["authorization"].removeprefix("Bearer ")
    async with logged_in(team.server(), token) as web:
        key = await form_key(web, "/")
        assert 403 not in await statuses(web, [*PATHS, *ACTIONS])
        assert 403 not in await pressed(web, key)
