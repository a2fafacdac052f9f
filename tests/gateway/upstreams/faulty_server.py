"""A small, correct MCP server over stdio (2025-11-25) that misbehaves as its arguments say.

    python faulty_server.py                     all is well
    python faulty_server.py hang-at-call        one fault; several may be given
    python faulty_server.py tools=10000         a fault with a value

It imports little, so that it starts in some 20 ms.

At start:   exits=STATUS  fails=N:FILE (exits N times, counted in FILE, then works)  hang-at-start  slow-start=SECONDS
            spin  wrapper (a child serves, the parent waits)  detached-child (one in a session of its own, that sleeps)
            wait-for=FILE (answers nothing until FILE is there)
Ending:     lingers (ignores SIGTERM and the end of stdin)  ignores-eof (ignores only the end of stdin)
Output:     garbage-before  garbage-between  garbage-glued  garbage-only  stderr-flood=BYTES  stderr=TEXT
            pours=WHAT (without an end, once its tools are listed: lines, blank, line, notes or odd, which are MCP)
Pipes:      closes-stdin  closes-stdout  stops-reading (each: after the handshake)
Lists:      hang-at-list[=KIND]  refuses-list=KIND (answers it with an error)
            no-capabilities  empty-cursor
            tools=N  list-bytes=N  twice  bad-schema  deep-schema=N  tag=TEXT  storm=N (list_changed, so many a second)
Calls:      hang-at-call  die-in-call  spin-at-call  values (answers with 600,000 of them)
            last-call (closes stdout with an answer that no end of a line follows, and stays)
Records:    pids=FILE (a line for each process)  record=FILE (a line for each message received)
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
FAULTS = dict(word.partition("=")[::2] for word in sys.argv[1:])
"""The arguments: value by name, "" where none is given."""
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


def text(value: str) -> Message:
    return {"content": [{"type": "text", "text": value}]}


def tool(name: str, description: str, /, **properties: str) -> Message:
    schema = {key: {"type": kind} for key, kind in properties.items()}
    required = [key for key in properties if key not in ("delay", "level")]
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": schema, "required": required},
    }


TOOLS = [
    tool("echo", "Return the text.", text="string"),
    tool("add", "Return the sum, as structured content too.", a="number", b="number")
    | {"outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}},
    tool("sleep", "Return after so many seconds.", seconds="number"),
    tool("env", "Return the environment, as JSON."),
    tool("pid", "Return the ids of this process, its parent, group and session, as JSON."),
    tool("big", "Return a text of n bytes.", n="integer"),
    tool("image", "Return an image, a link and an embedded resource."),
    tool("fail", "Return an error result.", text="string"),
    tool("reject", "Answer with a JSON-RPC error.", text="string"),
    tool("die", "End the process with a status, or by a signal where negative.", status="integer"),
    tool("orphan", "Kill the wrapper by SIGKILL."),
    tool("stderr", "Write the text to stderr.", text="string"),
    tool("ask", "Ask the user (elicitation).", message="string"),
    tool("sample", "Have the caller's model answer (sampling).", prompt="string"),
    tool("roots", "Return the caller's roots, as JSON."),
    tool("log", "Send a log message.", message="string", level="string"),
    tool("progress", "Report progress in n steps.", n="integer", delay="number"),
    tool("meta", "Return the `_meta` of the call, as JSON."),
    tool("change", "Add a tool of this name and send list_changed.", name="string"),
    tool("cancelled", "Return the ids of the requests that were cancelled, as JSON."),
]


class Server:
    """One connection: reads stdin, answers on stdout, each request in a thread of its own."""

    def __init__(self) -> None:
        self.tools: list[Message] = [*TOOLS, *listed_faults()]
        self.writing = threading.Lock()
        self.answers: dict[str, Callable[[Message], None]] = {}
        self.n_asked = 0
        self.cancelled: list[Any] = []

    def send(self, message: Message) -> None:
        line = json.dumps({"jsonrpc": "2.0"} | message)
        with self.writing:
            if "garbage-between" in FAULTS:
                write("progress 10 %\r\x1b[31mprogress 20 %\x1b[0m\n\n{'not': json}\n[]\n42\n")
            if "garbage-glued" in FAULTS:
                write("Ready. ")
            if "last-call" in FAULTS and "content" in message.get("result", {}):
                write(line)
                os.close(1)
                hang()
            write(line + "\n")

    def ask(self, method: str, params: Message) -> Message:
        """Send a request of our own and return the whole answer."""
        answered, answer = threading.Event(), {}

        def take(message: Message) -> None:
            answer.update(message)
            answered.set()

        with self.writing:
            self.n_asked += 1
            name = f"ask-{self.n_asked}"
        self.answers[name] = take
        self.send({"id": name, "method": method, "params": params})
        answered.wait()
        return answer

    def run(self) -> None:
        for line in sys.stdin:
            if "record" in FAULTS:
                append(FAULTS["record"], line)
            message = json.loads(line)
            method = message.get("method")
            if method is None:
                self.answers.pop(message["id"])(message)
            elif method == "notifications/initialized":
                self.after_handshake()
            elif method == "notifications/cancelled":
                self.cancelled.append(message["params"].get("requestId"))
            elif "id" in message:
                threading.Thread(target=self.answer, args=(message,), daemon=True).start()

    def answer(self, message: Message) -> None:
        method, params = message["method"], message.get("params") or {}
        try:
            result = self.result(method, params)
        except Refused as refused:
            self.send({"id": message["id"], "error": {"code": refused.code, "message": str(refused)}})
        else:
            self.send({"id": message["id"], "result": result})
        while "pours" in FAULTS and method == "tools/list":
            with self.writing:
                write(POURED[FAULTS["pours"]])

    def result(self, method: str, params: Message) -> Message:
        if method.endswith("/list") and FAULTS.get("hang-at-list") in ("", method.removesuffix("/list")):
            hang()
        if method.removesuffix("/list") == FAULTS.get("refuses-list"):
            raise Refused(-32603, "connect ECONNREFUSED")
        if method == "initialize":
            return handshake(params)
        if method == "tools/list":
            return {"tools": self.tools, **({"nextCursor": ""} if "empty-cursor" in FAULTS else {})}
        if method == "tools/call":
            return self.call(params)
        if method in PLAIN:
            return PLAIN[method](params)
        raise Refused(-32601, f"Method not found: {method}")

    def call(self, params: Message) -> Message:
        name, arguments = params["name"], params.get("arguments") or {}
        if "hang-at-call" in FAULTS:
            hang()
        if "spin-at-call" in FAULTS:
            spin()
        if "values" in FAULTS:
            return text("") | {"structuredContent": {"values": [[]] * 300_000}}
        if "die-in-call" in FAULTS:
            complain("out of luck")
            os._exit(3)
        if name in CALLS:
            return CALLS[name](self, arguments, params.get("_meta") or {})
        if any(tool["name"] == name for tool in self.tools):
            return text(f"{name} was called")
        raise Refused(-32602, f"Unknown tool: {name}")

    def after_handshake(self) -> None:
        if "closes-stdin" in FAULTS:
            os.close(0)
            hang()
        if "stops-reading" in FAULTS:
            hang()
        if "closes-stdout" in FAULTS:
            os.close(1)
            hang()
        if "storm" in FAULTS:
            threading.Thread(target=self.storm, args=(float(FAULTS["storm"]),), daemon=True).start()

    def storm(self, per_second: float) -> None:
        while True:
            self.send({"method": "notifications/tools/list_changed"})
            time.sleep(1 / per_second)


NOTE = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "n"}})
POURED = {"lines": "still at work\n" * 200, "blank": "\n" * 2000, "line": "x" * 60_000, "notes": f"{NOTE}\n" * 100}
POURED["odd"] = POURED["notes"].replace('"level": "info"', '"level": "none"')


class Refused(Exception):
    """What is answered as a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


# What the tools do.


def add(server: Server, arguments: Message, meta: Message) -> Message:
    total = arguments["a"] + arguments["b"]
    return text(json.dumps({"sum": total})) | {"structuredContent": {"sum": total}}


def sleep(server: Server, arguments: Message, meta: Message) -> Message:
    time.sleep(arguments["seconds"])
    return text("slept")


def image(server: Server, arguments: Message, meta: Message) -> Message:
    link = {"type": "resource_link", "uri": "note://a", "name": "a"}
    embedded = {"type": "resource", "resource": {"uri": "note://b", "mimeType": "text/plain", "text": "b"}}
    return {"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}, link, embedded]}


def reject(server: Server, arguments: Message, meta: Message) -> Message:
    raise Refused(-32000, arguments["text"])


def die(server: Server, arguments: Message, meta: Message) -> Message:
    status = arguments["status"]
    if status < 0:
        os.kill(os.getpid(), -status)
        hang()
    complain(f"dying with {status}")
    os._exit(status)


def orphan(server: Server, arguments: Message, meta: Message) -> Message:
    os.kill(os.getppid(), signal.SIGKILL)
    return text("killed")


def stderr(server: Server, arguments: Message, meta: Message) -> Message:
    complain(arguments["text"])
    return text("written")


def ask(server: Server, arguments: Message, meta: Message) -> Message:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = {"mode": "form", "message": arguments["message"], "requestedSchema": schema}
    return answered(server.ask("elicitation/create", params))


def sample(server: Server, arguments: Message, meta: Message) -> Message:
    messages = [{"role": "user", "content": {"type": "text", "text": arguments["prompt"]}}]
    return answered(server.ask("sampling/createMessage", {"messages": messages, "maxTokens": 100}))


def roots(server: Server, arguments: Message, meta: Message) -> Message:
    return answered(server.ask("roots/list", {}))


def answered(message: Message) -> Message:
    return text(json.dumps(message.get("result", message.get("error")), sort_keys=True))


def log(server: Server, arguments: Message, meta: Message) -> Message:
    level = arguments.get("level", "info")
    data = {"level": level, "logger": "faulty", "data": arguments["message"]}
    server.send({"method": "notifications/message", "params": data})
    return text("logged")


def progress(server: Server, arguments: Message, meta: Message) -> Message:
    n_steps, token = arguments["n"], meta.get("progressToken")
    for step in range(1, n_steps + 1):
        time.sleep(arguments.get("delay", 0))
        if token is not None:
            told = {"progressToken": token, "progress": step, "total": n_steps, "message": f"step {step}"}
            server.send({"method": "notifications/progress", "params": told})
    return text(f"{n_steps} steps")


def change(server: Server, arguments: Message, meta: Message) -> Message:
    server.tools = [*server.tools, tool(arguments["name"], "Added later.")]
    server.send({"method": "notifications/tools/list_changed"})
    return text("changed")


CALLS: dict[str, Callable[[Server, Message, Message], Message]] = {
    "echo": lambda server, arguments, meta: text(arguments["text"]),
    "add": add,
    "sleep": sleep,
    "env": lambda server, arguments, meta: text(json.dumps(dict(os.environ), sort_keys=True)),
    "pid": lambda server, arguments, meta: text(json.dumps(ids())),
    "big": lambda server, arguments, meta: text("x" * arguments["n"]),
    "image": image,
    "fail": lambda server, arguments, meta: text(arguments["text"]) | {"isError": True},
    "reject": reject,
    "die": die,
    "orphan": orphan,
    "stderr": stderr,
    "ask": ask,
    "sample": sample,
    "roots": roots,
    "log": log,
    "progress": progress,
    "meta": lambda server, arguments, meta: text(json.dumps(meta, sort_keys=True)),
    "change": change,
    "cancelled": lambda server, arguments, meta: text(json.dumps(server.cancelled)),
}


# The other methods.


def handshake(params: Message) -> Message:
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
        "capabilities": {}
        if "no-capabilities" in FAULTS
        else {
            "tools": {"listChanged": True},
            "prompts": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "completions": {},
            "logging": {},
        },
        "serverInfo": {"name": "faulty", "version": "1.0.0", "title": "Faulty server"},
        "instructions": "Call echo.",
    }


def prompt(params: Message) -> Message:
    name = (params.get("arguments") or {}).get("name", "nobody")
    return {"messages": [{"role": "user", "content": {"type": "text", "text": f"Greet {name}."}}]}


def read(params: Message) -> Message:
    if not params["uri"].startswith("note://"):
        raise Refused(-32002, f"Resource not found: {params['uri']}")
    return {"contents": [{"uri": params["uri"], "mimeType": "text/plain", "text": f"text of {params['uri']}"}]}


def nothing(params: Message) -> Message:
    return {}


GREET = {"name": "greet", "description": "Greet somebody.", "arguments": [{"name": "name", "required": True}]}
PLAIN: dict[str, Callable[[Message], Message]] = {
    "ping": nothing,
    "logging/setLevel": nothing,
    "resources/subscribe": nothing,
    "resources/unsubscribe": nothing,
    "prompts/list": lambda params: {"prompts": [GREET]},
    "prompts/get": prompt,
    "resources/list": lambda params: {"resources": [{"uri": "note://a", "name": "a", "mimeType": "text/plain"}]},
    "resources/templates/list": lambda params: {
        "resourceTemplates": [{"uriTemplate": "note://{name}", "name": "note"}]
    },
    "resources/read": read,
    "completion/complete": lambda params: {"completion": {"values": [params["argument"]["value"] + "!"], "total": 1}},
}


# The faults.


def listed_faults() -> list[Message]:
    """Return the tools that are listed for a fault."""
    more = [
        tool(f"tool_{n:05}", f"Tool number {n} of many.", text="string") for n in range(int(FAULTS.get("tools", 0)))
    ]
    if "list-bytes" in FAULTS:
        more.append(tool("long", "x" * int(FAULTS["list-bytes"])))
    if "twice" in FAULTS:
        more.append(tool("echo", "The second of this name."))
    if "bad-schema" in FAULTS:
        more.append(tool("schema_is_text", "") | {"inputSchema": "text"})
        more.append(
            tool("schema_of_no_type", "") | {"inputSchema": {"type": "object", "properties": {"a": {"type": 5}}}}
        )
    if "deep-schema" in FAULTS:
        schema: Message = {"type": "string"}
        for _ in range(int(FAULTS["deep-schema"])):
            schema = {"type": "object", "properties": {"a": schema}}
        more.append(tool("deep", "") | {"inputSchema": schema})
    if "tag" in FAULTS:
        more.append(tool("tagged", "") | {"_meta": {"fastmcp": {"tags": [FAULTS["tag"]]}}})
    return more


def write(line: str) -> None:
    data = line.encode()
    while data:
        data = data[os.write(1, data) :]


def complain(line: str) -> None:
    os.write(2, line.encode() + b"\n")


def append(path: str, line: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(line)


def ids() -> dict[str, int]:
    return {"pid": os.getpid(), "parent": os.getppid(), "group": os.getpgrp(), "session": os.getsid(0)}


def hang() -> None:
    while True:
        time.sleep(3600)


def spin() -> None:
    while True:
        pass


def record(pid: int) -> None:
    if "pids" in FAULTS:
        append(FAULTS["pids"], f"{pid}\n")


def fail_first() -> None:
    """Count this start in a file, and exit where it is one of the first N."""
    n_fails, _, path = FAULTS["fails"].partition(":")
    append(path, "start\n")
    with open(path, encoding="utf-8") as file:
        n_starts = len(file.readlines())
    if n_starts <= int(n_fails):
        complain(f"start {n_starts} of {n_fails} that fail")
        os._exit(1)


def serve_in_child() -> None:
    """Return in a child; the parent waits for it as `npx` does, and passes no signal on."""
    if (child := os.fork()) != 0:
        os.waitpid(child, 0)
        os._exit(0)
    record(os.getpid())


def leave_child() -> None:
    """Start a child that no signal to our group reaches, such as a browser."""
    if (child := os.fork()) != 0:
        record(child)
    else:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for fd in (0, 1, 2):
            os.close(fd)
        hang()


def flood() -> None:
    line, n_left = b"noise " * 10_922 + b"\n", int(FAULTS["stderr-flood"])
    while n_left > 0:
        n_left -= os.write(2, line[:n_left])
    complain("\nthe flood is over")


def misbehave_at_start() -> None:
    record(os.getpid())
    if "lingers" in FAULTS:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "fails" in FAULTS:
        fail_first()
    if "stderr" in FAULTS:
        complain(FAULTS["stderr"])
    if "exits" in FAULTS:
        complain("cannot go on")
        os._exit(int(FAULTS["exits"]))
    if "hang-at-start" in FAULTS:
        hang()
    if "spin" in FAULTS:
        spin()
    if "detached-child" in FAULTS:
        leave_child()
    if "wrapper" in FAULTS:
        serve_in_child()
    while "wait-for" in FAULTS and not os.path.exists(FAULTS["wait-for"]):
        time.sleep(0.01)
    time.sleep(float(FAULTS.get("slow-start", 0)))


def speak_at_start() -> None:
    if "garbage-before" in FAULTS:
        write("Starting \x1b[1mfaulty\x1b[0m server ...\n\nlistening on stdio\n{\n")
    while "garbage-only" in FAULTS:
        write("I am no MCP server\n")
        time.sleep(0.01)
    if "stderr-flood" in FAULTS:
        threading.Thread(target=flood, daemon=True).start()


def main(server: type[Server] = Server) -> None:
    misbehave_at_start()
    speak_at_start()
    server().run()
    if "lingers" in FAULTS or "ignores-eof" in FAULTS:
        hang()


if __name__ == "__main__":
    main()
