"""The small server of `faulty_server.py`, in both eras: a connection is of the one that its first request is of.

    python two_era_server.py [FAULT ...]

Of 2026-07-28 it asks nobody anything, as FastMCP's servers do. Beside the faults of `faulty_server.py`:

refuses-handshake   it is of the newer era alone
alone=FILE          it ends at once where another process of it runs
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import Any

from faulty_server import FAULTS, Message, Refused, Server, handshake, main, text, tool  # type: ignore[import-not-found]

VERSION = "io.modelcontextprotocol/protocolVersion"
LOCKED: list[Any] = []


class TwoEras(Server):  # type: ignore[misc]
    """One connection."""

    def __init__(self) -> None:
        super().__init__()
        self.tools.append(tool("where", "Return the era, the process, and what the client offers, as JSON."))
        self.offered: Message | None = None

    def result(self, method: str, params: Message) -> Message:
        if method == "server/discover":
            if self.offered is not None:
                raise Refused(-32600, "this connection is of the handshake's era")
            capabilities = handshake({})["capabilities"]
            return {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        if method == "initialize":
            if "refuses-handshake" in FAULTS:
                raise Refused(-32022, "the initialize handshake is not accepted")
            self.offered = params["capabilities"]
        if method == "subscriptions/listen":
            raise Refused(-32601, "it tells of no changes")
        return super().result(method, params)

    def call(self, params: Message) -> Message:
        is_modern = VERSION in (params.get("_meta") or {})
        assert is_modern == (self.offered is None)
        if is_modern and params["name"] in ("ask", "sample", "roots"):
            return text("unavailable on 2026-07-28 connections") | {"isError": True}
        if params["name"] == "where":
            era = "modern" if is_modern else "handshake"
            return text(json.dumps({"era": era, "pid": os.getpid(), "offered": self.offered}))
        return super().call(params)


def be_alone(path: str) -> None:
    LOCKED.append(file := open(path, "w"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.write(2, b"another of me runs\n")
        os._exit(1)


if __name__ == "__main__":
    if "alone" in FAULTS:
        be_alone(FAULTS["alone"])
    main(TwoEras)
