"""A real OpenID provider, and somebody who logs in at it through its pages."""

from __future__ import annotations

import html
import json
import os
import re
import socket
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2
import uvicorn
from fastmcp import FastMCP
from fastmcp.client.auth import OAuth
from joserfc import jwk
from mcp.client.auth import AuthorizationCodeResult

from tests.conformance import node

OIDC_PROVIDER = "9.13.3"
CLIENT = ("the-server", "the-secret-of-the-server")
_HERE = Path(__file__).parent


class Provider:
    """Two issuers in one process of Node.js: `url` registers clients, `closed_url` knows `CLIENT` alone.

    Args:
        folder: for their keys.
        redirect_uri: of the one client.
    """

    def __init__(self, folder: Path, redirect_uri: str) -> None:
        self._package = node.installed("oidc-provider", OIDC_PROVIDER)
        self._node = node.node()
        self._keys, self._redirect_uri = folder / "keys.json", redirect_uri
        self._ports: list[str] = []
        self.keys: list[jwk.ECKey] = []
        self.add_key()

    @property
    def url(self) -> str:
        """The issuer that registers clients."""
        return f"http://127.0.0.1:{self._ports[0]}"

    @property
    def closed_url(self) -> str:
        """The issuer that does not."""
        return f"http://127.0.0.1:{self._ports[1]}"

    def add_key(self) -> None:
        """Have another key sign from the next start or rotation on; the others stay in the key set."""
        kid = f"k{len(self.keys)}"
        self.keys.insert(0, jwk.ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"}))
        self._keys.write_text(json.dumps([key.as_dict(private=True) for key in self.keys]))

    def start(self) -> None:
        """Start, on the ports that it had before."""
        command = [self._node, str(_HERE / "provider.mjs"), str(self._package), str(self._keys), *self._ports]
        environ = {**os.environ, "REDIRECT_URI": self._redirect_uri, "NODE_NO_WARNINGS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if re.fullmatch(r"\d+ \d+\n", line):
                self._ports = line.split()
                break
        assert self._ports, "the provider did not start"

    def kill(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def rotate(self) -> None:
        """Sign with a new key from now on, and name it in the key set."""
        self.add_key()
        httpx2.post(f"{self.url}/rotate").raise_for_status()


class Person(OAuth):
    """Somebody at a browser: logs in as `name` wherever a form asks, and consents."""

    def __init__(self, url: str, name: str = "ann", **how: Any) -> None:
        self.name = name
        self.pages: list[str] = []
        self._returned = ""
        with warnings.catch_warnings(action="ignore"):  # Tokens end with the test.
            super().__init__(url, **how)

    def _bind(self, mcp_url: str) -> None:
        with warnings.catch_warnings(action="ignore"):
            super()._bind(mcp_url)

    async def redirect_handler(self, authorization_url: str) -> None:
        """Go from page to page until the browser is sent back to the client."""
        self._returned = await browse(authorization_url, self.name, self._is_back, self.pages)

    def _is_back(self, url: str) -> bool:
        return urlsplit(url).path == "/callback"

    async def callback_handler(self) -> AuthorizationCodeResult:
        """Return what the browser came back with."""
        came = {name: values[0] for name, values in parse_qs(urlsplit(self._returned).query).items()}
        assert "code" in came, came
        return AuthorizationCodeResult(code=came["code"], state=came.get("state"), iss=came.get("iss"))


async def browse(url: str, name: str, is_back: Callable[[str], bool], pages: list[str]) -> str:
    """Return the first URL that a browser is sent to and is back; forms on the way are filled in."""
    async with httpx2.AsyncClient(verify=False) as browser:
        response = await browser.get(url)
        for _ in range(20):
            pages.append(str(response.url))
            if response.is_redirect:
                url = urljoin(str(response.url), response.headers["location"])
                if is_back(url):
                    return url
                response = await browser.get(url)
                continue
            form = re.search(r"<form[^>]*>.*?</form>", response.text, re.DOTALL)
            assert form is not None, response.text[:1000]
            action = re.search(r'<form[^>]*action="([^"]*)"', form[0])
            fields = {
                field[1]: html.unescape(value[1]) if (value := re.search(r'value="([^"]*)"', tag)) else ""
                for tag in re.findall(r"<(?:input|button)[^>]*>", form[0])
                if (field := re.search(r'name="([^"]*)"', tag))
            }
            if "login" in fields:
                fields |= {"login": name, "password": "any"}
            if "action" in fields:  # Of this server's own page.
                fields["action"] = "approve"
            target = urljoin(str(response.url), html.unescape(action[1]) if action else "")
            response = await browser.post(target, data=fields, headers={"origin": _origin(target)})
    raise AssertionError(f"no way back from {pages}")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@contextmanager
def listening() -> Iterator[socket.socket]:
    """Hold a free port of this machine, for a server that must know its URL before it is made."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


def url_of(held: socket.socket) -> str:
    """Return the URL of what will listen there."""
    return f"http://127.0.0.1:{held.getsockname()[1]}"


@contextmanager
def serving(server: FastMCP[Any], held: socket.socket, path: str = "/mcp") -> Iterator[str]:
    """Serve on a held port for a block; yields the URL of its endpoint."""
    started = threading.Event()

    class Announced(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    app = server.http_app(path=path, stateless_http=True, json_response=True)
    running = Announced(uvicorn.Config(app, log_level="error", ws="none"))
    thread = threading.Thread(target=running.run, args=([held],))
    thread.start()
    try:
        assert started.wait(60), "the server did not start"
        yield url_of(held) + path
    finally:
        running.should_exit = True
        thread.join()
