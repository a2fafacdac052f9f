"""An upstream spoken to without a gateway: what it gives itself, for comparison."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tests.wire.wires import Caller, StdioCaller

_END_S = 30


@contextmanager
def direct(server: Mapping[str, Any]) -> Iterator[Caller]:
    """Start a stdio server of a config and call it; the process ends with the block."""
    environ = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    process = subprocess.Popen(
        [server["command"], *server["args"]],
        env={**environ, **server.get("env", {})},
        cwd=server.get("cwd"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield StdioCaller(process.stdout, process.stdin)
    finally:
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


@contextmanager
def all_direct(config: Mapping[str, Any]) -> Iterator[Mapping[str, Caller]]:
    """Start every server of an `mcp.json` and call each; the processes end with the block."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(direct(server)) for name, server in config["mcpServers"].items()}
