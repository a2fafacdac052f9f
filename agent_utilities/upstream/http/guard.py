"""Where a login may lead: what a server says of its own, it could say of any address that we reach and it does not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import httpx2
from fastmcp.server.auth.ssrf import is_ip_allowed


class OwnLoginError(RuntimeError):
    """A login could not be made."""


class Guard:
    """A hook for the requests of an HTTP client: of addresses that are not public it reaches the server's own alone.

    What counts is the address that a connection ends at, whatever name or spelling led there, before anything is sent.
    Where the operator's environment names a proxy, that looks names up: then only hosts that are addresses are judged.

    Args:
        url: the server's, as its operator has it.
        hosts: others that its operator lets a login lead to, wherever they are, or patterns of them such as `*`.
    """

    def __init__(self, url: str, hosts: Iterable[str] = ()) -> None:
        self._url, self._hosts = httpx2.URL(url), [host.lower() for host in hosts]
        self._own: Collection[str] = ()
        """The address that the server itself was reached at."""

    async def __call__(self, request: httpx2.Request) -> None:
        """Have a request fail where it would lead to an address that it may not reach."""
        host, is_own, is_direct = request.url.host, request.url.join("/") == self._url.join("/"), True
        if any(fnmatchcase(host, each) for each in self._hosts) or (is_own and self._own):
            return

        async def judge(event: str, info: Mapping[str, Any]) -> None:
            nonlocal is_direct
            if event == "connection.connect_tcp.started" and not is_own:
                is_direct = info["host"] == host
                await self._check(host, await _addresses(host, 0 if is_direct else socket.AI_NUMERICHOST))
            elif event == "connection.connect_tcp.complete" and is_direct:
                stream = info["return_value"]
                address = stream.get_extra_info("server_addr")[0]
                if is_own:
                    self._own = (address,)
                    return
                try:
                    await self._check(host, [address])
                except OwnLoginError:
                    await stream.aclose()
                    raise

        request.extensions["trace"] = judge

    async def _check(self, host: str, addresses: Collection[str]) -> None:
        if not addresses or any(map(is_ip_allowed, addresses)):
            return
        own = self._own or await _addresses(self._url.host)
        if not set(own) & set(addresses):
            raise OwnLoginError(
                f"its login leads to {host} ({', '.join(addresses)}), which is no public address and not its own;"
                " if that is meant, name the host in `oauth.hosts` of its config"
            )


async def _addresses(host: str, flags: int = 0) -> list[str]:
    """Return the addresses that a host stands for; none where it can't be looked up, as connecting will tell."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))
