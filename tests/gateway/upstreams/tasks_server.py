"""An MCP server of 2026-07-28 that runs tools as background tasks, and checks nothing of what it is not asked to.

    python -I -S tasks_server.py stdio
    python -I -S tasks_server.py http PORT      (0 takes a free one; prints its URL)

`work` is a task where the call declares that tasks are taken, and runs as a call where not; `must` is a task or an
error. Their arguments say what becomes of them, see `Task`. `plain` tells what a call of it declared, or what
`result` says; `told` tells the
requests that came since it was last asked, `end` has a task end.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

META = "io.modelcontextprotocol/"
EXTENSION = "io.modelcontextprotocol/tasks"
MODERN = "2026-07-28"
Message = dict[str, Any]
_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
QUESTION: Message = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Who?", "requestedSchema": _SCHEMA},
}


class Task:
    """A task, which ends at once but for what the arguments of its call say.

    Args:
        given: `id` is what it is called; with `first` it asks before there is a task, with `waits` it works until `end`
            is called, `asks` has it want an answer, `fails` has it end by an error, `result` is its result, `more` is
            told beside it, and `ttlMs` is its.
    """

    def __init__(self, n: int, given: Message) -> None:
        self.id, self.given = given.get("id", f"task-{n}"), given
        self.status = "input_required" if given.get("asks") else "working" if given.get("waits") else "completed"
        if given.get("fails"):
            self.status = "failed"
        self.answers: Message = {}

    def told(self, *, whole: bool) -> Message:
        """Return what is told of it: with what came of it where it is asked for."""
        told = {
            "taskId": self.id,
            "status": self.status if whole else "working",
            "createdAt": "2026-07-28T00:00:00Z",
            "lastUpdatedAt": "2026-07-28T00:00:00Z",
            "ttlMs": self.given.get("ttlMs", 60_000),
            "pollIntervalMs": 10,
            **self.given.get("more", {}),
        }
        if whole and self.status == "completed":
            told["result"] = self.given.get("result") or _text(json.dumps(self.answers))
        if whole and self.status == "failed":
            told["error"] = {"code": -32099, "message": "it broke", "data": {"own": 1}}
        if whole and self.status == "input_required":
            told["inputRequests"] = {"who": QUESTION}
        return told


def _text(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}], "isError": False}


class RpcError(Exception):
    """What is answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.error = {"code": code, "message": message, **({} if data is None else {"data": data})}


class Server:
    """What answers, on any transport; `has_tasks` is whether it announces them."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.requests: list[Message] = []
        self.has_tasks = True
        self._n = itertools.count(1)

    def answer(self, message: Message, headers: Message) -> Message | None:
        """Return the answer to a request; None for what is none."""
        if "id" not in message or "method" not in message:
            return None
        method, params = message["method"], message.get("params") or {}
        if method.startswith("tasks/") or method == "tools/call":
            self.requests.append({"method": method, "params": params, "headers": headers})
        try:
            result = {"resultType": "complete", **self._result(method, params)}
        except RpcError as error:
            return {"jsonrpc": "2.0", "id": message["id"], "error": error.error}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def _result(self, method: str, params: Message) -> Message:
        kept = {"ttlMs": 0, "cacheScope": "private"}
        if method == "server/discover":
            extensions: Message = {"extensions": {EXTENSION: {}}} if self.has_tasks else {}
            return {"supportedVersions": [MODERN], "capabilities": {"tools": {}, **extensions}, **kept}
        if method == "initialize":
            told = {"supported": [MODERN], "requested": params.get("protocolVersion")}
            raise RpcError(-32022, "the initialize handshake is not accepted", told)
        if method == "tools/list":
            names = ("work", "must", "plain", "told", "end")
            return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names], **kept}
        if method == "tools/call":
            offered = params["_meta"][f"{META}clientCapabilities"].get("extensions", {})
            given = params.get("arguments") or {}
            if given.get("first") and "inputResponses" not in params:
                return {"resultType": "input_required", "inputRequests": {"who": QUESTION}, "requestState": "asked"}
            return self._called(params["name"], given, offered)
        if not method.startswith("tasks/"):
            raise RpcError(-32601, f"no such method: {method}")
        return self._of_task(method, params)

    def _called(self, name: str, given: Message, offered: Message) -> Message:
        if name == "plain":
            return given.get("result") or _text(json.dumps(offered))
        if name == "told":
            told, self.requests[:] = list(self.requests[:-1]), []
            return _text(json.dumps({"pid": os.getpid(), "requests": told}))
        if name == "end":
            self.tasks[given["id"]].status = "completed"
            return _text("ended")
        if EXTENSION not in offered and not given.get("anyway"):
            if name == "must":
                data: Message = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
                raise RpcError(-32021, "must be a task", data)
            return _text("ran as a call")
        task = Task(next(self._n), given)
        self.tasks[task.id] = task
        return {**task.told(whole=False), "resultType": "task"}

    def _of_task(self, method: str, params: Message) -> Message:
        given = params["taskId"]
        if (task := self.tasks.get(given)) is None:
            raise RpcError(-32602, f"task {given} has expired")
        if method == "tasks/get":
            return task.told(whole=True)
        if method == "tasks/cancel":
            task.status = "cancelled"
        else:
            task.answers |= params["inputResponses"]
            task.status = "completed"
        return {}


def serve_stdio(server: Server) -> None:
    """Answer each line."""
    for line in sys.stdin.buffer:
        if (answer := server.answer(json.loads(line), {})) is not None:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def serve_http(server: Server, port: int) -> ThreadingHTTPServer:
    """Answer each POST, in threads of its own; what is returned serves until it is shut down."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            pass

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {key.lower(): value for key, value in self.headers.items()}
            answer = server.answer(message, headers)
            body = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(202 if answer is None else 200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.send_error(405)

    served = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    served.daemon_threads = True
    threading.Thread(target=served.serve_forever, daemon=True).start()
    return served


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        serve_stdio(Server())
    else:
        print(f"http://127.0.0.1:{serve_http(Server(), int(sys.argv[2])).server_address[1]}/mcp", flush=True)
        threading.Event().wait()
