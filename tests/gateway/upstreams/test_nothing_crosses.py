"""Nothing of a caller's, and nothing of the gateway's own environment, reaches an upstream unless it is named."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.upstreams.gateway_process import Gateway, gateway
from tests.wire.processes import HttpProcess
from tests.wire.wires import HTTP_WIRES

pytestmark = pytest.mark.outside

SERVER = str(Path(__file__).with_name("recording_server.py"))
WAYS = ("stdio", "http", "handshake", "sse")
"""How the gateway reaches an upstream; over HTTP in either era."""
SECRET = "of-the-caller-alone"
"""In everything that a caller brings and that must not cross."""
NAMED = {"x-tenant": "named-tenant", "x-trace": "named-trace"}
"""Headers of the caller that the operator names."""
HEADERS = {
    "authorization": f"Bearer {SECRET}",
    "cookie": f"session={SECRET}",
    "proxy-authorization": f"Basic {SECRET}",
    "x-api-key": SECRET,
    "x-forwarded-for": SECRET,
    "x-mcp-disabled-tools": SECRET,
    "x-mcp-query": f"look {SECRET}",
    "x-tenant-too": SECRET,
    **NAMED,
}
SAFE = {
    *("GIVEN", "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "AGENT_UTILITIES_UPSTREAM"),
    *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
}
"""What a process may find in its environment: what is configured, where it is, and where certificates are."""
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=1"}
"""What of a caller's `_meta` crosses to every upstream, the log level beside it."""
META = {
    "agent-utilities/selection": {"disabled_tools": [SECRET]},
    "example.com/user": SECRET,
    "example.com/tenant-too": SECRET,
    "baggage": f"user={SECRET}",
    "io.modelcontextprotocol/related-task": {"taskId": SECRET},
    "io.modelcontextprotocol/logLevel": "debug",
    "progressToken": SECRET,
    **TRACE,
}
"""Of a caller's requests; they may name a tenant besides."""
TENANT = {"example.com/tenant": {"name": "named-tenant"}}
"""What of `_meta` the operator names."""


@dataclass(frozen=True)
class Recorded:
    """What upstreams wrote down while callers on every wire called them.

    Args:
        gateway: what the callers called.
        records: by upstream, the lines that it wrote.
    """

    gateway: Gateway
    records: dict[str, list[dict[str, Any]]]

    def calls(self, upstream: str) -> list[dict[str, Any]]:
        """Return the calls that reached an upstream."""
        messages = [json.loads(line["message"]) for line in self.records[upstream] if "message" in line]
        return [each["params"] for each in messages if each.get("method") == "tools/call"]

    def headers(self, upstream: str) -> set[tuple[str, str]]:
        """Return every header that reached an upstream."""
        return {tuple(pair) for line in self.records[upstream] for pair in line.get("request", {}).get("headers", ())}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder = tmp_path_factory.mktemp("recorded")
    servers: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        for way in WAYS:
            servers[way] = _server(stack, way, folder / f"{way}.record")
            if way != "stdio":
                named = {"forwardHeaders": [name.title() for name in NAMED]}
                named["forwardMeta"] = list(TENANT)
                servers[f"{way}-named"] = {**_server(stack, way, folder / f"{way}-named.record"), **named}
        config = {"mcpServers": servers}
        it = stack.enter_context(gateway(config, folder, GATEWAY_SECRET=SECRET, AWS_SECRET_ACCESS_KEY=SECRET))
        it.until_listed(list(servers))
        for wire in HTTP_WIRES:
            with it.calling(wire, f"?disabled_tools={SECRET}", list(HEADERS.items())) as caller:
                for name in servers:
                    params = {"name": f"{name}_look", "arguments": {"text": f"from {wire}"}, "_meta": META | TENANT}
                    assert "looked" in caller.ask("tools/call", params).raw.decode()
        records = {name: _lines(folder / f"{name}.record") for name in servers}
        yield Recorded(it, records)


def _server(stack: ExitStack, way: str, record: Path) -> dict[str, Any]:
    """Return how an upstream is configured; over HTTP it is started."""
    if way == "stdio":
        return {"command": sys.executable, "args": [SERVER, str(record), way], "env": {"GIVEN": "by the operator"}}
    process = HttpProcess([sys.executable, SERVER, str(record), way], os.environ)
    stack.callback(process.stop)
    process.wait()
    own = {"headers": {"X-Own": "of the operator"}}
    return {
        "url": f"{process.url}/{'sse' if way == 'sse' else 'mcp'}",
        "type": "sse" if way == "sse" else "http",
        **own,
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


EVERY = (*WAYS, *(f"{way}-named" for way in WAYS if way != "stdio"))


class TestEveryUpstream:
    def test_it_was_called_over_every_wire(self, recorded: Recorded) -> None:
        for upstream in EVERY:
            assert [each["arguments"]["text"] for each in recorded.calls(upstream)] == [
                f"from {wire}" for wire in HTTP_WIRES
            ]

    def test_nothing_of_the_callers_reached_it(self, recorded: Recorded) -> None:
        for upstream in EVERY:
            assert SECRET not in json.dumps(recorded.records[upstream])

    def test_no_selection_reached_it(self, recorded: Recorded) -> None:
        for upstream in EVERY:
            assert "agent-utilities/selection" not in json.dumps(recorded.calls(upstream))
            assert [name for name, _ in recorded.headers(upstream) if name.startswith("x-mcp-")] == []


class TestHeaders:
    def test_those_that_are_named_cross_and_no_other(self, recorded: Recorded) -> None:
        for way in WAYS[1:]:
            with_named, without = recorded.headers(f"{way}-named"), recorded.headers(way)
            assert {name for name, _ in with_named} - {name for name, _ in without} == NAMED.keys()
            assert with_named >= NAMED.items()

    def test_the_operators_own_are_sent(self, recorded: Recorded) -> None:
        for way in WAYS[1:]:
            assert ("x-own", "of the operator") in recorded.headers(way)


class TestMeta:
    def test_the_trace_and_the_log_level_cross_and_what_is_named(self, recorded: Recorded) -> None:
        for upstream in EVERY:
            named = TENANT if upstream.endswith("-named") else {}
            for call in recorded.calls(upstream):
                told = call["_meta"]
                assert told["traceparent"].startswith(TRACE["traceparent"][:36])  # the span is the gateway's own
                assert told["tracestate"] == TRACE["tracestate"]
                assert told["io.modelcontextprotocol/logLevel"] == "debug"
                assert {key: told[key] for key in told if key.startswith("example.com/")} == named

    def test_nothing_tells_of_the_callers_client(self, recorded: Recorded) -> None:
        for upstream in EVERY:
            assert '"hostile"' not in json.dumps(recorded.records[upstream])


class TestEnvironment:
    def test_a_process_gets_what_is_configured(self, recorded: Recorded) -> None:
        assert recorded.records["stdio"][0]["environ"]["GIVEN"] == "by the operator"

    def test_and_a_small_safe_set_beside_it(self, recorded: Recorded) -> None:
        environ = recorded.records["stdio"][0]["environ"]
        assert environ["MCP_CONFIG_FILE"] == "none"  # the gateway's settings file bounds none but the gateway
        names = environ.keys() - {"MCP_CONFIG_FILE"}
        assert {name for name in names if name not in SAFE and not name.startswith(("LC_", "XDG_"))} == set()


def test_a_call_has_the_upstreams_own_name_and_arguments(recorded: Recorded) -> None:
    assert {each["name"] for upstream in EVERY for each in recorded.calls(upstream)} == {"look"}
