"""A process as an upstream, over its stdin and stdout."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
from fastmcp import Client
from fastmcp.client.client import CallToolResult
from mcp.shared.exceptions import MCPError

from agent_utilities.gateway.upstreams.errors import UpstreamError
from agent_utilities.gateway.upstreams.limits import Limits, Turns, Unfinished
from agent_utilities.gateway.upstreams.processes import process
from agent_utilities.gateway.upstreams.processes.stdio import StdioUpstream
from tests.every import every
from tests.gateway.upstreams.processes import FAULTY_SERVER, PATIENCE_S, Over, is_alive, until, upstream

PR_SET_CHILD_SUBREAPER = 36

pytestmark = [pytest.mark.outside, pytest.mark.anyio]


@pytest.fixture(autouse=True)
def _little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lingers is ended soon."""
    monkeypatch.setattr(process, "STDIN_CLOSED_S", 0.3)
    monkeypatch.setattr(process, "TERM_S", 0.3)


def connect(faulty: StdioUpstream) -> Client[Over]:
    return Client(Over(faulty), mode="legacy")


def text(result: CallToolResult) -> str:
    return result.content[0].text


async def death(faulty: StdioUpstream, *, call: str = "echo", **arguments: object) -> str:
    """Return how an upstream died, before or in a call, and what it wrote last."""
    with pytest.raises((MCPError, RuntimeError)):
        async with connect(faulty) as client, asyncio.timeout(PATIENCE_S):
            await client.call_tool(call, arguments or {"text": "hello"})
    return "\n".join((faulty.exit_text, *faulty.stderr.last_lines(5)))


class TestMessages:
    async def test_a_tool_answers(self):
        async with upstream() as faulty, connect(faulty) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"sum": 3}

    @every("fault", ["garbage-before", "garbage-between", "garbage-glued"])
    async def test_what_is_no_message_is_passed_over(self, fault: str):
        async with upstream(fault) as faulty, connect(faulty) as client:
            assert text(await client.call_tool("echo", {"text": "hello"})) == "hello"
            assert len(await client.list_tools()) == 20

    async def test_what_is_no_message_is_kept_without_escapes(self):
        async with upstream("garbage-before") as faulty, connect(faulty):
            assert faulty.first_garbage == "Starting faulty server ..."

    async def test_a_result_of_64_mib_passes_where_its_config_permits_that(self):
        async with upstream(max_message_bytes=65 * 2**20) as faulty, connect(faulty) as client:
            assert len(text(await client.call_tool("big", {"n": 64 * 2**20}))) == 64 * 2**20

    async def test_an_answer_over_the_limit_is_an_error_that_says_so_and_the_connection_stays(self):
        async with upstream(max_message_bytes=2**20) as faulty, connect(faulty) as client:
            with pytest.raises(MCPError, match="answer of 3 MiB is dropped: it is a message of over 1 MiB, the most"):
                await client.call_tool("big", {"n": 3 * 2**20})
            assert text(await client.call_tool("echo", {"text": "hello"})) == "hello"

    async def test_arguments_that_fill_the_pipe_pass(self):
        async with upstream() as faulty, connect(faulty) as client:
            long = "x" * 3_000_000
            assert text(await client.call_tool("echo", {"text": long})) == long


class Noted(Turns):
    """Turns that keep what each line took."""

    def __init__(self) -> None:
        super().__init__()
        self.took_s: list[float] = []

    async def after(self, n_bytes: int, worked_s: float = 0.0) -> None:
        self.took_s.append(worked_s)
        await super().after(n_bytes, worked_s)


class TestEventLoops:
    """Python's own, and uvloop, whose clock stands still for a turn, and which closes what it is given twice."""

    @pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.skipif(not find_spec("uvloop"), reason="no"))])
    def anyio_backend(self, request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
        return "asyncio", {"use_uvloop": request.param}

    async def test_what_a_line_takes_to_read_is_counted(self):
        async with upstream() as faulty:
            faulty._turns = noted = Noted()
            async with connect(faulty) as client:
                await client.call_tool("big", {"n": 2**20})
        assert max(noted.took_s) > 0

    async def test_a_process_that_closes_its_stdin_is_noticed(self):
        async with upstream("closes-stdin") as faulty, connect(faulty), asyncio.timeout(PATIENCE_S):
            await faulty.died.wait()
        assert "closed its stdin" in faulty.exit_text

    async def test_closing_the_file_of_a_pipe_leaves_the_descriptor_to_uvloop_which_closes_it_too(self):
        """Another thread may open something in between, under that very number."""
        async with upstream() as faulty, connect(faulty):
            pipes = [
                faulty._process.stdin.transport,
                *(transport for transport, _ in faulty._process._outputs.values()),
            ]
            for pipe in [transport.get_extra_info("pipe") for transport in pipes]:
                if not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
                    descriptor = pipe.fileno()
                    pipe.close()
                    os.fstat(descriptor)  # raises OSError where it is closed

    async def test_none_is_left_open(self):
        async with upstream() as faulty, connect(faulty):
            pass
        before = set(os.listdir("/proc/self/fd"))
        for _ in range(5):
            async with upstream() as faulty, connect(faulty):
                pass
        assert len(set(os.listdir("/proc/self/fd")) - before) <= 1  # the one that lists them


class TestAServerThatDoesNotRead:
    async def test_its_callers_wait_and_can_be_cancelled_at_once(self):
        async with upstream("stops-reading") as faulty, connect(faulty) as client:
            calls = [asyncio.ensure_future(client.call_tool("echo", {"text": "x" * 400_000})) for _ in range(20)]
            await asyncio.wait(calls, timeout=0.2)
            began = asyncio.get_running_loop().time()
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            assert asyncio.get_running_loop().time() - began < 4  # each would have waited 5 s for its own farewell

    async def test_other_upstreams_are_not_held_up(self):
        async with (
            upstream("stops-reading") as stuck,
            upstream() as well,
            connect(stuck) as deaf,
            connect(well) as client,
        ):
            call = asyncio.ensure_future(deaf.call_tool("echo", {"text": "x" * 5_000_000}))
            assert text(await client.call_tool("echo", {"text": "hello"})) == "hello"
            assert not call.done()
            call.cancel()
            await asyncio.wait([call])


class TestDeath:
    async def test_a_status_is_told_with_the_last_lines_of_stderr(self):
        async with upstream("die-in-call") as faulty:
            assert await death(faulty) == "exited with status 3\nout of luck"

    async def test_a_signal_is_told_by_its_name(self):
        async with upstream() as faulty:
            assert await death(faulty, call="die", status=-9) == "was ended by SIGKILL"

    async def test_it_is_told_before_the_handshake_too(self):
        async with upstream("exits=5") as faulty:
            assert await death(faulty) == "exited with status 5\ncannot go on"

    @every(("fault", "told"), [("closes-stdout", "closed its stdout"), ("closes-stdin", "closed its stdin")])
    async def test_a_pipe_that_closes_ends_calls_too(self, fault: str, told: str):
        async with upstream(fault) as faulty:
            assert await death(faulty) == told

    async def test_what_prints_nothing_but_garbage_is_no_mcp(self):
        async with upstream("garbage-only", limits=Limits(garbage_lines=5)) as faulty:
            told = await death(faulty)
        assert re.match(r"wrote 5 lines \(0.0 MiB\) to stdout with no message among them; what it writes", told)
        assert told.endswith("to stdout is no MCP, such as 'I am no MCP server'")

    async def test_a_wrapper_that_dies_is_told_though_its_child_holds_the_pipes(self):
        async with upstream("wrapper", "lingers") as faulty, connect(faulty) as client:
            with suppress(MCPError):
                await client.call_tool("orphan", {})
            await asyncio.wait_for(faulty.died.wait(), PATIENCE_S)
            assert faulty.exit_text == "was ended by SIGKILL"

    async def test_an_answer_before_death_arrives(self):
        async with upstream() as faulty, connect(faulty) as client:
            assert faulty.pid
            answers = [asyncio.ensure_future(client.call_tool("big", {"n": 50_000})) for _ in range(5)]
            await asyncio.wait(answers)
            assert not faulty.died.is_set()
            os.kill(faulty.pid, signal.SIGTERM)
            await asyncio.wait_for(faulty.died.wait(), PATIENCE_S)
            assert faulty.exit_text == "was ended by SIGTERM"


class TestEnding:
    async def test_it_is_told_without_a_word_of_how_since_it_did_not_die(self):
        async with upstream() as faulty:
            async with connect(faulty):
                pass
            assert faulty.died.is_set()
            assert faulty.exit_text == ""

    @every(
        "faults",
        [
            (),
            ("ignores-eof",),
            ("wrapper", "lingers"),
            ("detached-child",),
            ("wrapper", "detached-child", "ignores-eof"),
        ],
    )
    async def test_nothing_of_the_tree_lives_on(self, faults: tuple[str, ...], tmp_path: Path):
        pids = tmp_path / "pids"
        async with upstream(*faults, f"pids={pids}") as faulty:
            async with connect(faulty) as client:
                await client.call_tool("echo", {"text": "hello"})
            assert [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)] == []  # with no guard's help

    async def test_a_child_without_the_marker_is_found_by_its_session(self, tmp_path: Path):
        pid = tmp_path / "pid"
        shell = f'env -i sleep 3600 & echo $! > {pid}; exec "$@"'
        python = (sys.executable, "-I", "-S", str(FAULTY_SERVER))
        async with upstream(command="/bin/sh", args=("-c", shell, "sh", *python)) as faulty, connect(faulty):
            assert is_alive(int(pid.read_text()))
        assert not is_alive(int(pid.read_text()))

    async def test_no_zombie_is_left(self):
        async with upstream("exits=0") as faulty:
            await death(faulty)
            assert str(faulty.pid) not in os.listdir("/proc")

    async def test_no_zombie_is_left_where_orphans_become_our_children(self, tmp_path: Path):
        """As they do where the gateway is a container's first process."""
        pids, prctl = tmp_path / "pids", ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            async with (
                upstream("wrapper", "lingers", "detached-child", f"pids={pids}") as faulty,
                connect(faulty) as client,
            ):
                with suppress(MCPError):
                    await client.call_tool("orphan", {})
                await asyncio.wait_for(faulty.died.wait(), PATIENCE_S)
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        assert set(pids.read_text().split()) & set(os.listdir("/proc")) == set()

    async def test_twenty_starts_leave_no_descriptor_open(self):
        async with upstream(command="/bin/cat", args=()) as faulty:

            async def start_and_end() -> None:
                kept = {"stderr": faulty.stderr, "guard": faulty.guard, "unfinished": Unfinished()}
                one = StdioUpstream(faulty.config, environ=os.environ, **kept)
                async with one.streams():
                    pass

            await start_and_end()
            n_before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                await start_and_end()
            assert len(os.listdir("/proc/self/fd")) == n_before

    async def test_a_start_that_is_cancelled_leaves_nothing(self):
        async with upstream("hang-at-start", "stderr=here") as faulty:
            start = asyncio.ensure_future(connect(faulty).__aenter__())
            await until(lambda: faulty.stderr.last_lines(1) == ["here"])
            start.cancel()
            await asyncio.wait([start])
            assert faulty.pid
        assert not is_alive(faulty.pid)

    async def test_a_task_that_is_cancelled_twice_leaves_nothing(self, tmp_path: Path):
        pids, is_up = tmp_path / "pids", asyncio.Event()
        async with upstream("lingers", f"pids={pids}") as faulty:

            async def use() -> None:
                async with connect(faulty):
                    is_up.set()
                    await asyncio.Event().wait()

            task = asyncio.ensure_future(use())
            await is_up.wait()
            for _ in range(5):
                task.cancel()
                await asyncio.sleep(0)
            await asyncio.wait([task])
        # The guard's end waits for whatever is left.
        assert [pid for pid in map(int, pids.read_text().split()) if is_alive(pid)] == []


class TestEnvironment:
    async def environment(self, environ: dict[str, str], **more: object) -> dict[str, str]:
        async with upstream(environ=environ, **more) as faulty, connect(faulty) as client:
            return json.loads(text(await client.call_tool("env", {})))

    async def test_it_is_the_configs_and_a_few_harmless_ones(self):
        own = {"HOME": "/", "LC_ALL": "C", "MY_KEY": "secret", "AWS_SECRET_ACCESS_KEY": "s", "NO_PROXY": "a.b"}
        seen = await self.environment(own, env={"GIVEN": "value"})
        assert sorted(seen.keys() - {"AGENT_UTILITIES_UPSTREAM", "PATH", "LC_CTYPE"}) == [
            "GIVEN",
            "HOME",
            "LC_ALL",
            "MCP_CONFIG_FILE",
            "NO_PROXY",
        ]

    async def test_it_has_no_settings_file_of_the_gateways_but_may_have_its_own(self):
        own = {"HOME": "/", "MCP_CONFIG_FILE": "/gateway.toml"}
        assert (await self.environment(own))["MCP_CONFIG_FILE"] == "none"
        assert (await self.environment(own, env={"MCP_CONFIG_FILE": "/own.toml"}))["MCP_CONFIG_FILE"] == "/own.toml"

    async def test_a_proxy_with_a_password_is_not_passed_on(self):
        for place in ("http://user:password@proxy:80", "http://user:pass/word@proxy:80", "user:pass#word@proxy:80"):
            seen = await self.environment({"HTTPS_PROXY": place, "HTTP_PROXY": "http://proxy:80"})
            assert (seen.get("HTTPS_PROXY"), seen.get("HTTP_PROXY")) == (None, "http://proxy:80")

    async def test_its_folder_is_the_configs(self, tmp_path: Path):
        async with upstream(command="/bin/pwd", args=(), cwd=str(tmp_path)) as faulty:
            await death(faulty)
        assert faulty.first_garbage == str(tmp_path)


class TestSecrets:
    async def test_no_value_of_the_config_is_in_a_log_or_an_error(self):
        secret = "sk-0123456789abcdef"
        more = {"env": {"API_KEY": secret}}
        async with upstream(f"stderr=my key is {secret}", "exits=1", **more) as faulty:
            assert await death(faulty) == "exited with status 1\nmy key is [hidden]\ncannot go on"


class TestWhatCannotStart:
    @every(
        ("more", "told"),
        [
            ({"command": "no-such-program"}, "no command 'no-such-program'; looked in /usr/bin"),
            ({"command": "git "}, "git"),
            ({"cwd": "/no/such/folder"}, "its folder '/no/such/folder' does not exist"),
            ({"args": ("a\0b",)}, "null byte"),
            ({"command": "/etc/passwd"}, "not executable"),
            ({"command": "/etc"}, "is a folder"),
        ],
    )
    async def test_it_is_told_as_not_found(self, more: dict[str, object], told: str):
        async with upstream(environ={"PATH": "/usr/bin:/bin", "HOME": "/"}, **more) as faulty:
            with pytest.raises(UpstreamError) as raised:
                async with faulty.streams():
                    pass
        assert raised.value.cause == "not found"
        assert told in raised.value.detail

    @every(
        ("content", "told"),
        [
            (b"\0\1\2", "no first line that names its interpreter"),
            (b"#!/usr/bin/no-such-python -u\n", "not what runs it: the interpreter of its first line"),
            (b"#!/bin/sh\r\n", "may end in a carriage return"),
        ],
    )
    async def test_a_script_without_an_interpreter_is_told(self, tmp_path: Path, content: bytes, told: str):
        script = tmp_path / "server"
        script.write_bytes(content)
        script.chmod(0o755)
        async with upstream(command=str(script)) as faulty:
            with pytest.raises(UpstreamError, match=told):
                async with faulty.streams():
                    pass
