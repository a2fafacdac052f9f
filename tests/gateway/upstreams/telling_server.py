"""A raw server over stdio (2025-11-25) that tells, asks and fails as it is told: `python telling_server.py WORD ...`.

late=SECONDS (lists its tool only so long after the start, and tells of it)  bare (lists nothing, ever)
prompts (answers a list of prompts with an error that reads as a closed connection)
asks (asks for roots once it is initialized, outside of any call)
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

WORDS = dict(word.partition("=")[::2] for word in sys.argv[1:])
STARTED_S = time.monotonic()
_WRITING = threading.Lock()
_ANSWERED: dict[str, threading.Event] = {}
_ANSWERS: dict[str, Any] = {}
told: dict[str, Any] = {"caps": None, "level": None, "outside": None}


def send(**message: Any) -> None:
    with _WRITING:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method: str, **params: Any) -> Any:
    name = f"q{len(_ANSWERED)}"
    _ANSWERED[name] = threading.Event()
    send(id=name, method=method, params=params)
    _ANSWERED[name].wait()
    return _ANSWERS[name].get("result", _ANSWERS[name].get("error"))


def outside() -> None:
    told["outside"] = ask("roots/list")


def call(params: dict[str, Any]) -> Any:
    arguments = params.get("arguments", {})
    for n in range(arguments.get("logs", 0)):
        send(method="notifications/message", params={"level": "info", "data": n, "extra": {"kept": None}})
    for n in range(arguments.get("progress", 0)):
        token = params["_meta"]["progressToken"]
        send(method="notifications/progress", params={"progressToken": token, "progress": n, "total": 7})
    if "error" in arguments:
        return {"error": arguments["error"]}
    if "asks" in arguments:
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        time.sleep(arguments["asks"])
        return ask("elicitation/create", message="Who?", requestedSchema=form)
    return told


def listed() -> list[Any]:
    if "bare" in WORDS or time.monotonic() - STARTED_S < float(WORDS.get("late", 0)):
        return []
    return [{"name": "tell", "inputSchema": {"type": "object"}}]


def answer(message: dict[str, Any]) -> None:
    method, params = message["method"], message.get("params") or {}
    result: Any = {}
    match method:
        case "initialize":
            told["caps"] = params["capabilities"]
            capabilities: Any = {"tools": {"listChanged": True}, "logging": {}}
            if "prompts" in WORDS:
                capabilities["prompts"] = {}
            info = {"name": "telling", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            result = {"tools": listed()}
        case "logging/setLevel":
            told["level"] = params["level"]
        case "tools/call":
            value = call(params)
            if "error" in value:
                send(id=message["id"], error=value["error"])
                return
            result = {"content": [{"type": "text", "text": json.dumps(value)}]}
        case "ping":
            pass
        case _:
            send(id=message["id"], error={"code": -32000, "message": "Connection closed"})
            return
    send(id=message["id"], result=result)


for line in sys.stdin:
    read = json.loads(line)
    if "method" not in read:
        _ANSWERS[read["id"]] = read
        _ANSWERED[read["id"]].set()
    elif "id" in read:
        threading.Thread(target=answer, args=(read,), daemon=True).start()
    elif read["method"] == "notifications/initialized":
        if "asks" in WORDS:
            threading.Thread(target=outside, daemon=True).start()
        if "late" in WORDS:
            changed = {"method": "notifications/tools/list_changed"}
            threading.Timer(float(WORDS["late"]) + 0.05, send, kwargs=changed).start()
