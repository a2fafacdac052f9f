"""HTTP down to the byte: what a client that checks nothing would send."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 90
REQUEST_ID = 7

Headers = Sequence[tuple[str, str | bytes]]


class Reply:
    """One HTTP answer, read to its end.

    Args:
        response: the answer as it comes in.
    """

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def message(self) -> bytes:
        """The JSON-RPC message in the body, be it JSON or a stream of events that ended."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            return self.body
        found = (event for event in events(iter(self.body.splitlines())) if b'"id":' in event)
        return next(found, self.body)


class RawHttp:
    """One connection that is kept open between requests, as long as the server does.

    Args:
        url: the server's root URL.
    """

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc
        self._connection = http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)

    def send(self, method: str, target: str, headers: Headers = (), body: Any = None) -> Reply:
        """Send a request and return its answer; a body that isn't bytes goes as JSON."""
        try:
            return Reply(self._exchange(self._connection, method, target, headers, body))
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, http.client.CannotSendRequest):
            self._connection.close()
            return Reply(self._exchange(self._connection, method, target, headers, body))

    def get(self, target: str, headers: Headers = ()) -> Reply:
        """Send a GET request and return its answer."""
        return self.send("GET", target, headers)

    def stream(self, target: str, headers: Headers = (), body: Any = None) -> Stream:
        """Send a request on a connection of its own, and return its answer as a stream."""
        connection = http.client.HTTPConnection(self._address, timeout=TIMEOUT_S)
        method = "GET" if body is None else "POST"
        return Stream(connection, self._exchange(connection, method, target, headers, body))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @staticmethod
    def _exchange(
        connection: http.client.HTTPConnection, method: str, target: str, headers: Headers, body: Any
    ) -> http.client.HTTPResponse:
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        given = {key.lower() for key, _ in headers}
        connection.putrequest(method, target, skip_host="host" in given, skip_accept_encoding=True)
        for key, value in headers:
            connection.putheader(key, value if isinstance(value, bytes) else value.encode())
        if sent is not None:
            connection.putheader("content-length", str(len(sent)))
            if "content-type" not in given:
                connection.putheader("content-type", "application/json")
        connection.endheaders(sent)
        return connection.getresponse()


class Stream:
    """An answer that goes on: its events as they come."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection, self._response = connection, response
        self.status = response.status
        self._events = events(iter(response.readline, b""))

    def event(self) -> bytes:
        """Return the next event's data."""
        return next(self._events)

    def read(self) -> bytes:
        """Return the rest of an answer that ends."""
        return self._response.read()

    def close(self) -> None:
        """Hang up."""
        self._response.close()
        self._connection.close()


def events(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of each server-sent event that has any."""
    for line in lines:
        if line.startswith(b"data:") and (data := line.removeprefix(b"data:").strip()):
            yield data
