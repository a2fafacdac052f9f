"""A server that `agent-utilities demo capabilities` runs: one desk of an office, up at once, as it imports so little.

It speaks as much MCP as a gateway needs of it, in the handshake era's words: one JSON object a line.
"""

from __future__ import annotations

import json
import sys
from typing import Any

DESKS = {
    "billing": {
        "create_invoice": "Create an invoice for a customer.",
        "list_unpaid": "List the invoices that are overdue.",
        "send_reminder": "Send a customer a payment reminder.",
    },
    "calendar": {
        "find_slot": "Find a time at which everybody is free.",
        "book_meeting": "Book a meeting, and invite who takes part.",
    },
    "shipping": {
        "track_parcel": "Say where a parcel is.",
        "print_label": "Print the label of a parcel.",
        "book_courier": "Have a courier fetch a parcel.",
    },
}
"""By desk, its tools, and what each says of itself."""

_SCHEMA = {"type": "object", "properties": {"of": {"type": "string", "description": "What it is about."}}}


def _answer(desk: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        info = {"name": desk, "version": "1.0.0"}
        return {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list":
        tools = [{"name": n, "description": text, "inputSchema": _SCHEMA} for n, text in DESKS[desk].items()]
        return {"result": {"tools": tools}}
    if method == "tools/call":
        about = params.get("arguments", {}).get("of", "")
        text = f"{desk} did {params['name']}{f' of {about}' if about else ''}"
        return {"result": {"content": [{"type": "text", "text": text}]}}
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": f"no method {method!r}"}}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = _answer(sys.argv[1], request["method"], request.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)
