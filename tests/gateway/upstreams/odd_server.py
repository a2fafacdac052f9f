"""A server that makes its own of a question that it does not know: `python odd_server.py WHAT`.

`bare`: of the newer era, whose results say nothing of their kind, nor how long they hold. `slow`: of both eras, it
reads nothing until both were tried, and keeps to a handshake. `late`: of the newer era, it refuses the handshake before
it answers the probe. `later`: the same, once the probe was given up. The others are of the older era.
`silent`: no answer. `exits`: its process ends. `invalid`: an error of another kind. `empty`: an empty result.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import chain
from typing import Any


def answer(message: dict[str, Any], what: str) -> dict[str, Any] | None:
    """Return what a request is answered with; None for nothing."""
    method = message["method"]
    if method == "server/discover" and what in ("bare", "slow", "late", "later"):
        discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
        return {"result": {**discovered, "ttlMs": 0, "cacheScope": "private"}}
    if method == "initialize" and what in ("late", "later"):
        told = {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        return {"error": {"code": -32022, "message": "the initialize handshake is not accepted", "data": told}}
    if method == "initialize":
        info = {"name": "odd", "version": "1"}
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]}}
    if method == "tools/call":
        return {"result": {"content": [{"type": "text", "text": "hello"}]}}
    if what == "exits":
        sys.exit(1)
    if what == "empty":
        return {"result": {}}
    return None if what == "silent" else {"error": {"code": -32602, "message": "Invalid request parameters"}}


early = [sys.stdin.readline() for _ in range(2 if sys.argv[1] in ("slow", "late", "later") else 0)]
if sys.argv[1] == "late":
    early.reverse()
if sys.argv[1] == "later":
    time.sleep(1)
for line in chain(early, sys.stdin):
    received = json.loads(line)
    if "id" in received and (told := answer(received, sys.argv[1])) is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": received["id"], **told}), flush=True)
