"""A fleet at work: four clients call over three gateways, of which one is killed and one rolled; what each saw.

Redis, nginx and the agents of this repository are real; it ends by itself, within about half a minute.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_utilities.gateway.upstreams.sealed_store import new_key
from tests.fleet.processes.services import Balancer, RedisServer, nginx, redis_server
from tests.gateway.upstreams.gateway_process import GATEWAY, environ
from tests.wire.http_raw import Headers, RawHttp, Reply
from tests.wire.processes import HttpProcess
from tests.wire.wires import Answer, LegacyCaller, ModernCaller

DRAIN_S = 2
_PHASE, _PHASE_S = 25, 5
"""Answers that each client gets between two events, and the seconds after which a busy machine goes on with fewer."""
_PAUSE = threading.Event()
"""Never set: it is waited for between two looks."""
_AGENTS = {"files": "filesystem-agent-mcp", "git": "git-agent-mcp", "logs": "logs-agent-mcp"}
_ROOTS = ("FILESYSTEM_AGENT_ROOTS", "GIT_AGENT_ROOTS", "LOGS_AGENT_ROOTS")
_COUNTED = ("answers", "wrong", "lost", "stopping", "404", "other")


class OnceHttp(RawHttp):
    """A connection on which nothing is sent twice: where it is lost that is told, and the next request has another.

    One that the other end has closed before anything was sent is made anew, as every HTTP client does.
    """

    def send(self, method: str, target: str, headers: Headers = (), body: Any = None) -> Reply:
        """Send a request and return its answer.

        Raises:
            OSError, HTTPException: the connection was lost; whether the request was served is not known.
        """
        sock = self._connection.sock
        if sock is not None and select.select([sock], [], [], 0)[0]:
            self._connection.close()
        try:
            return Reply(self._exchange(self._connection, method, target, headers, body))
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise


@dataclass
class Client:
    """One client, which asks for what it alone knows the answer to.

    Args:
        number: from 1 up; odd ones speak 2026-07-28, even ones have a session.
        url: the balancer's.
        seen: how many answers of each kind it got.
    """

    number: int
    url: str
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))
    done: threading.Event = field(default_factory=threading.Event)
    error: str = ""
    first_lists: tuple[str, ...] = ()
    losses: list[tuple[float, str]] = field(default_factory=list)
    """When it lost a request, and to what."""

    @property
    def era(self) -> str:
        """The protocol that it speaks."""
        return "2026-07-28" if self.number % 2 else "2025-11-25"

    @property
    def saw_wrong(self) -> bool:
        """Whether it saw what none must: another's answer, a session that is gone, an error that nobody promised."""
        return bool(self.error or self.seen["wrong"] or self.seen["404"] or self.seen["other"])

    @property
    def token(self) -> str:
        """What is in its files alone."""
        return f"only client {self.number} reads this"

    def work(self) -> None:
        """Ask in turns until it is done."""
        try:
            with closing(OnceHttp(self.url)) as http:
                caller = ModernCaller(http, "", ()) if self.number % 2 else LegacyCaller(http, "", ())
                asks = [
                    lambda: self._call(caller, "tool_search", {"query": f"{_WORDS[self.number]}"}, ""),
                    lambda: self._call(caller, "files_view_file", {"path": self._file("txt")}, self.token),
                    lambda: self._call(
                        caller, "logs_search_logs", {"path": self._file("log"), "query": "reads this"}, self.token
                    ),
                    lambda: self._call(caller, "git_git_log", {}, "the only commit"),
                    lambda: self._list(caller),
                ]
                self._one(asks.pop(0))
                while not self.done.is_set():
                    for ask in asks:
                        self._one(ask)
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    def _file(self, kind: str) -> str:
        return f"client-{self.number}.{kind}"

    def _one(self, ask: Callable[[], str]) -> None:
        try:
            kind, why = ask(), "502 of the balancer"
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            kind, why = "lost", type(error).__name__
        self.seen[kind] += 1
        if kind == "lost":
            self.losses.append((time.monotonic(), why))

    def _call(self, caller: ModernCaller | LegacyCaller, tool: str, arguments: dict[str, Any], expected: str) -> str:
        answer = caller.ask("tools/call", {"name": tool, "arguments": arguments})
        return _kind_of(answer) or ("answers" if expected in json.dumps(answer.result) else "wrong")

    def _list(self, caller: ModernCaller | LegacyCaller) -> str:
        """List tools: they are the same again and again, whichever replica is asked."""
        answer = caller.ask("tools/list")
        if kind := _kind_of(answer):
            return kind
        names = tuple(tool["name"] for tool in answer.result["tools"])
        self.first_lists = self.first_lists or names
        return "answers" if names == self.first_lists else "wrong"


_WORDS = ("", "delete a file", "who wrote a line", "how many errors", "which branches are there")


def _kind_of(answer: Answer) -> str:
    """Return what an answer counts as, where it is not the result of a request."""
    if answer.status == 404:
        return "404"
    if answer.status in (502, 504) or not answer.raw:
        return "lost"
    if answer.status == 200 and not answer.refused:
        return ""
    error = answer.message.get("error", {})
    return "stopping" if isinstance(error, dict) and error.get("data") == {"reason": "stopping"} else "other"


class Fleet:
    """Three gateways over the three agents, which are servers of their own.

    Args:
        folder: for all of it.
        redis: which the gateways share.
    """

    def __init__(self, folder: Path, redis: RedisServer) -> None:
        self._folder, self._shared = folder, {"MCP_STATE_URL": redis.url(), "MCP_SECRET_KEY": new_key()}
        self._shared |= {"MCP_TOOL_SEARCH": "on"}
        self._agents = [self._agent(program) for program in _AGENTS.values()]
        for agent in self._agents:
            agent.wait()
        servers = {name: {"url": f"{agent.url}/mcp"} for name, agent in zip(_AGENTS, self._agents, strict=True)}
        (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        self.gateways = [self._launched(number) for number in range(3)]

    def _agent(self, program: str) -> HttpProcess:
        command = [str(Path(sys.executable).with_name(program)), "-t", "http", "-p", "0", "--read-only"]
        roots = dict.fromkeys(_ROOTS, str(self._folder / "work"))
        return HttpProcess(command, environ(self._folder / program, **roots), self._folder / "work")

    def _launched(self, number: int) -> HttpProcess:
        command = [*GATEWAY, str(self._folder / "mcp.json"), "--name", "agents", "-t", "http", "-p", "0", "--read-only"]
        home = self._folder / f"gateway-{number}"
        return HttpProcess([*command, "--drain", str(DRAIN_S)], environ(home, **self._shared), self._folder / "work")

    def until_ready(self) -> list[int]:
        """Return the ports of those that run, once each lists the tools of every agent."""
        ports = []
        for gateway in self.gateways:
            if gateway.process.poll() is None:
                gateway.wait()
                with closing(RawHttp(gateway.url)) as http:
                    while len(http.get("/tools?tool_search=off").json["tools"]) < 3 * len(_AGENTS):
                        assert gateway.process.poll() is None, gateway.log
                        _PAUSE.wait(0.05)
                ports.append(int(gateway.url.rpartition(":")[2]))
        return ports

    def kill(self, number: int) -> None:
        """End a gateway at once, with what it was doing; nobody tells the balancer."""
        self.gateways[number].process.kill()
        self.gateways[number].process.wait()

    def roll(self, number: int, balancer: Balancer) -> int:
        """Stop a gateway as a rollout does, and start it anew; return the code that it ended with."""
        gateway, port = self.gateways[number], int(self.gateways[number].url.rpartition(":")[2])
        gateway.process.send_signal(signal.SIGTERM)
        with closing(RawHttp(gateway.url)) as http:
            while http.get("/ready").status == 200:
                _PAUSE.wait(0.05)
        balancer.over([other for other in self.until_ready() if other != port])
        code = gateway.process.wait(DRAIN_S + 10)
        gateway.stop()
        self.gateways[number] = self._launched(number)
        balancer.over(self.until_ready())
        return code

    def close(self) -> None:
        """End every gateway and agent."""
        for process in (each := (*self.gateways, *self._agents)):
            process.process.terminate()
        for process in each:
            process.stop()


def _write_work(folder: Path, clients: Sequence[Client]) -> None:
    """Write a repository, and files that say for each client what no other has."""
    folder.mkdir()
    for client in clients:
        (folder / f"client-{client.number}.txt").write_text(client.token, encoding="utf-8")
        line = f"2026-07-28T12:00:01Z ERROR {client.token}\n"
        (folder / f"client-{client.number}.log").write_text(line, encoding="utf-8")
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    for command in (["init", "-q"], ["add", "."], [*author, "commit", "-q", "-m", "the only commit"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)


@contextmanager
def _nothing_left(folder: Path) -> Iterator[None]:
    """End what outlives a block, and say so."""
    try:
        yield
    finally:
        left = [each for each in psutil.process_iter() if _is_of(each, folder)]
        _, left = psutil.wait_procs(left, timeout=5)
        for each in left:
            print(f"left over, and ended: {each}", file=sys.stderr)
            each.kill()


def _is_of(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.pid != os.getpid() and str(folder) in process.environ().get("HOME", "")
    except (psutil.Error, OSError):
        return False


@contextmanager
def _working(clients: Sequence[Client], url: str) -> Iterator[None]:
    """Have clients ask at a URL for the length of a block."""
    with ThreadPoolExecutor(len(clients)) as threads:
        for client in clients:
            client.url = url
            threads.submit(client.work)
        try:
            yield
        finally:
            for client in clients:
                client.done.set()


def _wait_for_answers(clients: Sequence[Client]) -> None:
    """Return once each client got so many further answers, or this machine is too busy for as many."""
    goals = {client.number: client.seen["answers"] + _PHASE for client in clients}
    end_s = time.monotonic() + _PHASE_S
    while any(client.seen["answers"] < goals[client.number] and not client.error for client in clients):
        if time.monotonic() > end_s:
            return
        _PAUSE.wait(0.05)


def show() -> list[Client]:
    """Run the fleet and its clients, and return what they saw."""
    begun = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - begun:5.1f} s  {what}", file=sys.stderr, flush=True)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        clients = [Client(number, "") for number in range(1, 5)]
        _write_work(folder / "work", clients)
        stack.enter_context(_nothing_left(folder))
        redis = stack.enter_context(redis_server(folder))
        fleet = Fleet(folder, redis)
        stack.callback(fleet.close)
        balancer = stack.enter_context(nginx(folder / "nginx", fleet.until_ready()))
        say("Redis, three gateways over three agents each, and nginx in front of them are ready")
        stack.enter_context(_working(clients, balancer.url))
        _wait_for_answers(clients)
        fleet.kill(0)
        say("gateway 1 is killed (SIGKILL), and nginx is not told")
        _wait_for_answers(clients)
        say(f"gateway 2 is told to stop (SIGTERM), which it does {DRAIN_S} s after /ready has failed")
        code = fleet.roll(1, balancer)
        say(f"gateway 2 has ended with code {code}, and runs anew")
        _wait_for_answers(clients)
        say("clients stop")
    say("all has ended")
    for client in clients:
        for at_s, why in client.losses:
            say(f"client {client.number} lost a request at {at_s - begun:.1f} s: {why}")
    return clients


def main() -> None:
    """Print what each client saw; code 1 where one saw what it must not."""
    try:
        clients = show()
    except pytest.skip.Exception as reason:  # a program is missing
        sys.exit(f"error: {reason}")
    print(f"{'client':8}{'protocol':12}" + "".join(f"{kind:>10}" for kind in _COUNTED) + f"{'tools':>8}")
    for client in clients:
        counts = "".join(f"{client.seen[kind]:>10}" for kind in _COUNTED)
        print(f"{client.number:<8}{client.era:12}{counts}{len(client.first_lists):>8}  {client.error}".rstrip())
    print("lost: the connection, or 502 of the balancer, for a request under way; stopping: told to ask elsewhere")
    if any(client.saw_wrong for client in clients):
        sys.exit(1)


if __name__ == "__main__":
    main()
