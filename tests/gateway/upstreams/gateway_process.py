"""`agent-utilities gateway` as a real process, and a caller of it on each wire."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.wire.http_raw import Headers
from tests.wire.processes import HttpProcess
from tests.wire.wires import Access, Caller, WireName

GATEWAY = (str(Path(sys.executable).with_name("agent-utilities")), "gateway")
DEFERRING_NONE = "?tool_search=off"
"""The query of a caller who wants all tools listed, however many they are."""
_LISTED_S = 100
_LOOK_AGAIN_S = 0.05


def environ(folder: Path, **given: str) -> dict[str, str]:
    """Return a gateway's environment: nothing of the tests' selection, and a home and cache folder of its own.

    Lists and results are compared with those of the servers, so that no tool is deferred and nothing is shortened.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    home = {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}
    home |= {"XDG_STATE_HOME": str(folder / "state"), "XDG_DATA_HOME": str(folder / "data")}
    plain = {"MCP_GRAPH": "off", "MCP_RANKER": "lexical", "MCP_TOOL_SEARCH": "off", "MCP_RESULT_TOKENS": "off"}
    plain["MCP_INVISIBLE"] = "keep"
    return {**kept, **plain, **home, **given}


@dataclass(frozen=True)
class Gateway:
    """A gateway that serves HTTP.

    Args:
        process: of the gateway.
        access: a way into it.
    """

    process: HttpProcess
    access: Access

    @contextmanager
    def calling(self, wire: WireName, query: str = "", headers: Headers = ()) -> Iterator[Caller]:
        """Connect a caller over `sse`, `legacy` or `modern`."""
        with self.access.calling(wire, query, headers) as caller:
            yield caller

    def tools(self, query: str = "") -> list[str]:
        """Return the names of the tools that it lists now."""
        with self.calling("modern", query) as caller:
            return [tool["name"] for tool in caller.ask("tools/list").result["tools"]]

    def ready(self) -> dict[str, Any]:
        """Return what `/ready` tells."""
        found: dict[str, Any] = self.access.http.get("/ready").json
        return found

    def until(self, holds: Callable[[Gateway], object], what: str) -> None:
        """Return once something holds of it; it is asked again and again.

        Raises:
            AssertionError: it does not hold in time.
        """
        end, pause = time.monotonic() + _LISTED_S, threading.Event()
        while not holds(self):
            assert time.monotonic() < end, f"not within {_LISTED_S} s: {what}; {json.dumps(self.ready())}"
            pause.wait(_LOOK_AGAIN_S)

    def until_listed(self, upstreams: Sequence[str]) -> None:
        """Return once every one of the upstreams has a tool in the list, were none deferred."""
        prefixes = [f"{name}_" for name in upstreams]
        self.until(
            lambda it: all(any(tool.startswith(prefix) for tool in it.tools(DEFERRING_NONE)) for prefix in prefixes),
            f"tools of {', '.join(upstreams)}",
        )


@contextmanager
def gateway(config: Mapping[str, Any], folder: Path, *options: str, **env: str) -> Iterator[Gateway]:
    """Serve an `mcp.json` over HTTP for the length of a block.

    Args:
        config: what the file says.
        folder: where the file is written, with the gateway's own home beside it.
        options: of the command line.
        env: further variables.
    """
    file = folder / "mcp.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    command = [*GATEWAY, str(file), "-t", "http", "-p", "0", "--log-level", "info", *options]
    process = HttpProcess(command, environ(folder, **env))
    try:
        process.wait()
        with closing(Access(process.url)) as access:
            yield Gateway(process, access)
    finally:
        process.stop()
