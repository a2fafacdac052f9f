"""Readers of the page of a server in this process, over its real HTTP application."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from agent_utilities import AgentServer
from agent_utilities.page.feature import Page
from agent_utilities.seam.host import find
from tests.server.in_process import web_of

ORIGIN = {"origin": "http://127.0.0.1"}


@asynccontextmanager
async def opened(server: AgentServer, prefix: str = "") -> AsyncIterator[httpx2.AsyncClient]:
    """A browser that has opened the page by its link."""
    async with web_of(server, prefix) as web:
        entered = await web.get(f"{prefix}/?key={key_of(server)}")
        assert entered.status_code == 303, entered.text
        yield web


@asynccontextmanager
async def logged_in(server: AgentServer, token: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser whose person has logged in to the page with a token."""
    async with web_of(server) as web:
        entered = await web.post("/page/login", data={"token": token}, headers=ORIGIN)
        assert entered.status_code == 303, entered.text
        yield web


def key_of(server: AgentServer) -> str:
    """Return the key of the page's link."""
    server.complete()
    page = find(server, Page)
    assert page is not None
    return page.key


async def form_key(web: httpx2.AsyncClient, url: str) -> str:
    """Return what a form on a page of the page brings along."""
    found = re.search(r'name="form_key" value="([^"]+)"', (await web.get(url)).text)
    assert found is not None
    return found[1]
