"""An embeddings endpoint on loopback that fails in every way when it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.query.ranking.catalogs import Concepts

RETRY_AFTER = {"limited": "7", "banned": "86400", "vague": "soon"}


class Server(ThreadingHTTPServer):
    """Answers as `fault` says; `released` ends what hangs."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault = ""
        self.n_asked = 0
        self.sent: dict[str, Any] = {}
        self.authorization: str | None = None
        self.released = threading.Event()
        self.model = Concepts()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        self.server.n_asked += 1
        self.server.authorization = self.headers["authorization"]
        self.server.sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
        texts, fault = self.server.sent["input"], self.server.fault
        if fault == "slow":
            self.server.released.wait(30)
            return
        if fault in RETRY_AFTER:
            self.answer(429, {"error": "slow down"}, {"retry-after": RETRY_AFTER[fault]})
            return
        if fault == "long":
            self.answer(200, {"data": " " * 4_000_000})
            return
        if fault == "broken":
            self.answer(500, {})
            return
        vectors = self.server.model.embed(texts, "document").tolist()
        if fault == "dimension":
            vectors = [vector[:10] for vector in vectors]
        if fault == "text":
            vectors = [["a"] for _ in vectors]
        rows = [{"index": place, "embedding": vector} for place, vector in enumerate(vectors)][::-1]
        self.answer(200, {"rows": rows} if fault == "shape" else {"data": rows[1:] if fault == "few" else rows})

    def answer(self, status: int, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def serving() -> Iterator[Server]:
    """Serve for the length of a block."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
