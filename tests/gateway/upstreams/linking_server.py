"""A server of resources that it links to, over stdio: `python linking_server.py NAME ERA WHAT`.

ERA: `old` speaks up to 2025-11-25, `new` 2026-07-28. WHAT, as JSON: `resources` and `templates` that it lists, `links`
that its tool `link` gives, `page` of the app of its tool `show`, and `capabilities` of its resources. Its tool `touch`
tells that a resource was updated where that is subscribed to, and returns what is; `die` ends its process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

name, era = sys.argv[1:3]
what = json.loads(sys.argv[3])
subscribed: dict[str, str] = {}
"""What is subscribed to, each with the id of its stream; empty up to 2025-11-25."""


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def told(uri: str, stream: Any) -> dict[str, Any]:
    meta = {"_meta": {"io.modelcontextprotocol/subscriptionId": stream}} if stream else {}
    return {"uri": uri, **meta}


def called(params: dict[str, Any]) -> dict[str, Any]:
    uri = params.get("arguments", {}).get("uri", "")
    match params["name"]:
        case "link":
            links = [{"type": "resource_link", "uri": each, "name": "r"} for each in what["links"]]
            embedded = [{"type": "resource", "resource": {"uri": each, "text": "t"}} for each in what["links"]]
            return {"content": [*links, *embedded]}
        case "die":
            sys.exit(1)
        case "touch" if uri in subscribed:
            say(method="notifications/resources/updated", params=told(uri, subscribed[uri]))
    return {"content": [{"type": "text", "text": json.dumps(sorted(subscribed))}]}


def listen(message: dict[str, Any]) -> None:
    uris = message["params"]["notifications"].get("resourceSubscriptions") or []
    subscribed.update(dict.fromkeys(uris, message["id"]))
    meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    acknowledged = {"notifications": message["params"]["notifications"], "_meta": meta}
    say(method="notifications/subscriptions/acknowledged", params=acknowledged)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a request; None for one of a method that it does not have."""
    capabilities = {"tools": {}, "prompts": {}, "resources": what.get("capabilities", {})}
    info = {"name": name, "version": "1"}
    page = {"ui": {"resourceUri": what["page"]}} if "page" in what else {}
    tools = [{"name": each, "inputSchema": {"type": "object"}} for each in ("link", "touch", "die")]
    answers: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info},
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": capabilities},
        "ping": {},
        "tools/list": {"tools": [*tools, {"name": "show", "inputSchema": {"type": "object"}, "_meta": page}]},
        "resources/list": {"resources": [{"uri": uri, "name": "r"} for uri in what.get("resources", [])]},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": uri, "name": "t"} for uri in what.get("templates", [])]
        },
        "resources/read": {"contents": [{"uri": params.get("uri"), "text": f"{params.get('uri')} of {name}"}]},
        "prompts/list": {"prompts": [{"name": "ask"}]},
        "prompts/get": {
            "messages": [
                {"role": "user", "content": {"type": "resource_link", "uri": uri, "name": "r"}}
                for uri in what.get("links", [])
            ]
        },
        "resources/subscribe": {},
        "resources/unsubscribe": {},
    }
    if method == ("server/discover" if era == "old" else "initialize"):
        return None
    result: dict[str, Any] | None = called(params) if method == "tools/call" else answers.get(method)
    modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return result if result is None or era == "old" else {**modern, **result}


for line in sys.stdin:
    received = json.loads(line)
    method, params = received.get("method"), received.get("params") or {}
    if method == "resources/subscribe":
        subscribed[params["uri"]] = ""
    if method == "resources/unsubscribe":
        subscribed.pop(params["uri"], None)
    if method == "notifications/cancelled":
        for uri in [uri for uri, stream in subscribed.items() if stream == params.get("requestId")]:
            del subscribed[uri]
    if method == "subscriptions/listen":
        listen(received)
    elif "id" in received and method:
        result = answer(method, params)
        refused = {"error": {"code": -32601, "message": "Method not found"}}
        say(id=received["id"], **(refused if result is None else {"result": result}))
