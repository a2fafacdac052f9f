"""A client that logs in at a server as a gateway does, for the official suite: `login_client.py gateway|caller URL`.

`gateway` is the gateway's own login, `caller` one that a caller makes at an upstream.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from fastmcp import Client

from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.http.account import Account, LoginStore
from agent_utilities.gateway.upstreams.http.login import Login
from agent_utilities.gateway.upstreams.http.transports import HttpUpstream
from agent_utilities.gateway.upstreams.limits import Unfinished
from agent_utilities.gateway.upstreams.sealed_store import SealedStore, new_key, read_key
from tests.gateway.upstreams.processes import Over

_BACK = "http://localhost:3000/logins/callback"


def _start(work: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
    return asyncio.ensure_future(work())


async def _account(config: UpstreamConfig, folder: Path) -> httpx2.Auth:
    store = LoginStore()
    store.folder = SealedStore(folder, read_key(new_key(), ""))
    account = Account(config, ("local", "ann"), store, _start)
    authorization = await account.authorization(_BACK)
    address, state, verifier = authorization.send()
    async with httpx2.AsyncClient() as browser:
        sent = await browser.get(address)
    given = {name: values[0] for name, values in parse_qs(urlsplit(sent.headers["location"]).query).items()}
    assert given.get("state") == state
    await account.logged_in(await authorization.take(verifier, given))
    return account


async def main(kind: str, url: str) -> None:
    """Log in, list what there is and call it."""
    told: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    client = {key: told[key] for key in ("client_id", "client_secret") if key in told}
    config = UpstreamConfig.model_validate(
        {"name": "a", "source": "", "transport": "http", "url": url, "oauth": client or None}
    )
    with tempfile.TemporaryDirectory() as folder:
        if kind == "caller":
            auth = await _account(config, Path(folder))
        else:
            auth = Login(config, folder, is_asked_for=True)
        async with Client(Over(HttpUpstream(config, auth, Unfinished()))) as session:
            for tool in await session.list_tools():
                await session.call_tool(tool.name, {})


def _open(url: str, new: int = 0, autoraise: bool = True) -> bool:
    """Open a page as a browser would, once whoever asks for it listens for what comes back."""

    def opened() -> None:
        back = urlsplit(parse_qs(urlsplit(url).query)["redirect_uri"][0])
        while True:
            try:
                socket.create_connection((back.hostname or "", back.port or 80)).close()
                urllib.request.urlopen(url).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.1)

    threading.Thread(target=opened, daemon=True).start()
    return True


if __name__ == "__main__":
    import webbrowser

    webbrowser.open = _open
    asyncio.run(main(sys.argv[1], sys.argv[-1]))
