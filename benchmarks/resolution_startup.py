"""From the start of a process to its first tool list over HTTP: with the graph, and without."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from http.client import HTTPConnection
from pathlib import Path

from benchmarks.contenders import ContenderError, environment
from benchmarks.measure import Lane, Rounds, Timing, interleave
from benchmarks.worker import ENVELOPE, PROTOCOL

OFF, CONTROL, FRESH, KEPT, NEO4J = "off", "off again", "embedded, no file yet", "embedded, filled before", "neo4j"

_SERVER = """\
import asyncio, socket, sys
import uvicorn
from fastmcp.tools.base import Tool
from agent_utilities import create_mcp_server
server = create_mcp_server('benchmark')
async def work(path: str, limit: int = 20, recursive: bool = False) -> str:
    return path
pattern = Tool.from_function(work)
for i in range(int(sys.argv[2])):
    text = f'Return the records of collection {i:04}, newest first, with the author, the date and a summary.'
    given = {'name': f'read_record_{i:04}', 'description': text, 'tags': {'read', f'group_{i % 20}'}}
    server.add_tool(pattern.model_copy(update=given))
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=int(sys.argv[1]))
config = uvicorn.Config(server.http_app(), log_level='error', lifespan='on', access_log=False)
asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
"""


def startup_rounds(n_tools: int, n_rounds: int, neo4j: Mapping[str, str] | None) -> Rounds:
    """Return the timings of fresh processes, interleaved; the listening socket is there before they are.

    The wall time is net of what the server's main thread waited for a processor, which other programs cause; the
    processor time is that thread's.

    Args:
        n_tools: the tools of each server.
        n_rounds: processes of each lane.
        neo4j: the variables that lead to a Neo4j, or None where there is none.
    """
    lanes = {OFF: {"MCP_GRAPH": "off"}, CONTROL: {"MCP_GRAPH": "off"}, FRESH: {}, KEPT: {}}
    if neo4j is not None:
        lanes[NEO4J] = dict(neo4j)
    with tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as folder:
        script = Path(folder) / "server.py"
        script.write_text(_SERVER, encoding="utf-8")
        kept = {"MCP_GRAPH_FOLDER": folder}
        _start(script, n_tools, kept, until_ready=True)
        lanes[KEPT] = kept
        made = {name: _lane(script, n_tools, variables) for name, variables in lanes.items()}
        return interleave(made, budget_s=0, min_rounds=n_rounds, max_calls=1)


def _lane(script: Path, n_tools: int, variables: Mapping[str, str]) -> Lane:
    return lambda n_calls: [_start(script, n_tools, variables)]


def _start(script: Path, n_tools: int, variables: Mapping[str, str], *, until_ready: bool = False) -> Timing:
    with (
        tempfile.TemporaryDirectory(prefix="benchmark-", ignore_cleanup_errors=True) as home,
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener,
        tempfile.TemporaryFile() as errors,
    ):
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, str(script), str(listener.fileno()), str(n_tools)],
            stdout=errors,
            stderr=errors,
            env={**environment(home), **variables},
            cwd=home,
            pass_fds=[listener.fileno()],
        )
        try:
            port = listener.getsockname()[1]
            listener.close()
            answer = _post(port)
            wall_s = time.perf_counter() - started
            cpu_ns, waited_ns = Path(f"/proc/{process.pid}/schedstat").read_text(encoding="ascii").split()[:2]
            if until_ready:
                _await_graph(port)
        except OSError:
            answer, cpu_ns, waited_ns = b"", "0", "0"
        finally:
            process.kill()
            process.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip()[-800:]
    n_listed = len(json.loads(answer or b"{}").get("result", {}).get("tools", ()))
    if n_listed != n_tools:
        raise ContenderError(f"the first list over HTTP has {n_listed} tools, not {n_tools}: {answer[:300]!r} {said}")
    return Timing(wall_s - int(waited_ns) / 1e9, int(cpu_ns) / 1e9)


def _post(port: int) -> bytes:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": PROTOCOL,
        "mcp-method": "tools/list",
    }
    connection.request("POST", "/mcp", json.dumps(body), headers)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def _await_graph(port: int) -> None:
    for _ in range(3000):
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/ready")
        graph = json.loads(connection.getresponse().read())["graph"]
        connection.close()
        if graph["status"] == "ready":
            return
        time.sleep(0.01)
    raise ContenderError(f"the graph was not filled within 30 s: {graph}")
