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

_PROTOCOL = "2025-06-18"
_NO_SUCH_METHOD = -32601
_SCHEMA = {"type": "object", "properties": {"of": {"type": "string", "description": "What it is about."}}}


def answer(desk: str, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request to a desk; None for a method that it does not have."""
    if method == "initialize":
        info = {"name": desk, "version": "1.0.0"}
        return {"protocolVersion": _PROTOCOL, "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        tools = DESKS[desk].items()
        return {"tools": [{"name": name, "description": text, "inputSchema": _SCHEMA} for name, text in tools]}
    if method == "tools/call":
        about = params.get("arguments", {}).get("of", "")
        text = f"{desk} did {params['name']}{f' of {about}' if about else ''}"
        return {"content": [{"type": "text", "text": text}]}
    return {} if method == "ping" else None


def main() -> None:
    """Answer what is asked on stdin until it ends."""
    desk = sys.argv[1]
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(desk, request["method"], request.get("params") or {})
        error = {"code": _NO_SUCH_METHOD, "message": f"no method {request['method']!r}"}
        said = {"error": error} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **said}), flush=True)


if __name__ == "__main__":
    main()
