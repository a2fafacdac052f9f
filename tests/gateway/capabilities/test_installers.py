"""Installers run where the operator allows it, one at a time, and leave no process behind."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from agent_utilities.gateway.capabilities.installers import KEPT_LINES, MAX_LINE_CHARACTERS, Toolchains
from agent_utilities.gateway.capabilities.model import Capability
from tests.gateway.upstreams.processes import wait_until_gone

pytestmark = [pytest.mark.outside, pytest.mark.anyio]

INSTALLS = (
    'mkdir -p "$HOME/.local/bin"; printf "#!/bin/sh\\n" >"$HOME/.local/bin/thing"; chmod +x "$HOME/.local/bin/thing"\n'
)
"""Installs the command `thing` where a user's own commands are."""


class Tap:
    """A tap with one requirement, `a/thing`, and a home folder to install it in."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder / "tap", folder / "home"
        self.home.mkdir()
        self.environ = {"HOME": str(self.home), "PATH": os.environ["PATH"], "MY_API_KEY": "sesame"}
        self.lines: asyncio.Queue[str] = asyncio.Queue()
        self.capability = Capability("thing", "thing/default.toml", self.folder, require=("a/thing",))

    def script(self, body: str, check: str = "# check: thing\n", name: str = "a/thing") -> Path:
        file = self.folder / "deps" / f"{name}.sh"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/usr/bin/env bash\n{check}\nset -e\n{body}")
        return file

    def told(self) -> list[str]:
        """Return the lines that were told till now."""
        return [self.lines.get_nowait() for _ in range(self.lines.qsize())]

    async def until_told(self, words: str) -> str:
        """Return the next line that has these words."""
        while words not in (line := await self.lines.get()):
            pass
        return line

    def allowed(self) -> Toolchains:
        """Return toolchains that may install."""
        return Toolchains(environ=self.environ, allow_install=True)

    async def satisfied(self, toolchains: Toolchains) -> str:
        """Return why `a/thing` is not there once it was installed; empty where it is."""
        return "".join(await toolchains.satisfy(self.capability, self.lines.put_nowait))


@pytest.fixture
def tap(tmp_path: Path) -> Tap:
    return Tap(tmp_path)


class TestWithoutPermission:
    async def test_no_installer_runs_and_models_are_told_what_would_do(self, tap: Tap) -> None:
        tap.script(INSTALLS)
        toolchains = Toolchains(environ=tap.environ, allow_install=False)
        told = (
            "a/thing: 'thing' is not installed; an operator may start the gateway with --allow-install, "
            "or run 'bash deps/a/thing.sh' in the folder that it is from"
        )
        assert await tap.satisfied(toolchains) == told
        assert await toolchains.missing([tap.capability]) == {"thing": [told]}
        assert (list(tap.home.iterdir()), tap.told()) == ([], [])

    async def test_nothing_is_said_of_what_is_there(self, tap: Tap) -> None:
        tap.script(INSTALLS, "# check: sh")
        toolchains = Toolchains(environ=tap.environ, allow_install=False)
        assert await toolchains.missing([tap.capability]) == {}

    async def test_a_missing_script_is_told_without_an_offer(self, tap: Tap) -> None:
        toolchains = Toolchains(environ=tap.environ, allow_install=False)
        assert await toolchains.missing([tap.capability]) == {
            "thing": ["there is no deps/a/thing.sh beside capabilities/: add it, or drop it there"]
        }


class TestInstalling:
    async def test_what_is_missing_is_installed_and_found(self, tap: Tap) -> None:
        tap.script("echo one; echo two >&2\n" + INSTALLS)
        toolchains = tap.allowed()
        assert await tap.satisfied(toolchains) == ""
        assert tap.told() == ["a/thing: 'thing' is not installed; installing it", "a/thing: one", "a/thing: two"]

    async def test_what_is_there_is_not_installed(self, tap: Tap) -> None:
        tap.script("touch ~/ran", "# check: sh")
        toolchains = tap.allowed()
        assert await tap.satisfied(toolchains) == ""
        assert not (tap.home / "ran").exists()

    async def test_one_that_fails_is_told_with_its_last_word(self, tap: Tap) -> None:
        tap.script("echo first; echo no network >&2; exit 3")
        toolchains = tap.allowed()
        told = "a/thing: 'thing' is not installed; its installer exited with status 3: no network"
        assert await tap.satisfied(toolchains) == told

    async def test_one_that_installs_something_else_is_told(self, tap: Tap) -> None:
        tap.script("")
        toolchains = tap.allowed()
        assert await tap.satisfied(toolchains) == "a/thing: 'thing' is not installed; its installer ended well"

    async def test_one_that_says_no_check_is_believed(self, tap: Tap) -> None:
        tap.script("echo ran >>~/runs", "")
        assert await tap.satisfied(tap.allowed()) == ""
        assert (tap.home / "runs").read_text() == "ran\n"

    async def test_it_can_ask_nothing_and_has_none_of_our_secrets(self, tap: Tap) -> None:
        tap.script('read -r answer || echo "nobody answers"; (: </dev/tty) 2>/dev/null || echo "no terminal"; env')
        toolchains = tap.allowed()
        await tap.satisfied(toolchains)
        told = tap.told()
        assert {"a/thing: nobody answers", "a/thing: no terminal"} <= set(told)
        assert not any("sesame" in line for line in told)

    async def test_no_more_than_so_much_of_a_flood_is_told(self, tap: Tap) -> None:
        tap.script("head -c 4000000 /dev/zero | tr '\\0' x; echo; yes | head -n 500000; printf '\\033[31mlast'")
        toolchains = tap.allowed()
        why = await tap.satisfied(toolchains)
        told = tap.told()
        assert why.endswith(": last")
        assert len(told) < 50_000
        assert max(map(len, told)) <= MAX_LINE_CHARACTERS + len("a/thing: ")
        assert KEPT_LINES < len(told)

    async def test_a_script_finds_what_lies_beside_it_and_runs_others(self, tap: Tap) -> None:
        tap.script("say() { echo said $1; }", "", name="lib/platform")
        tap.script("echo other", "", name="b/other")
        tap.script(
            'here="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"; . "$here/lib/platform.sh"\n'
            'say one; bash "$here/b/other.sh"'
        )
        toolchains = tap.allowed()
        await tap.satisfied(toolchains)
        assert tap.told()[1:] == ["a/thing: said one", "a/thing: other"]

    async def test_a_script_is_an_argument_whatever_its_folder_is_called(self, tmp_path: Path) -> None:
        folder = tmp_path / "a $(touch ran) `touch ran` ; touch ran"
        folder.mkdir()
        tap = Tap(folder)
        tap.script(INSTALLS)
        toolchains = tap.allowed()
        assert await tap.satisfied(toolchains) == ""
        assert await asyncio.to_thread(lambda: [*tmp_path.rglob("ran")]) == []


HANGS = "setsid sleep 1000 &\necho pids $$ $!; wait"
"""Hangs, with a child in a session of its own."""
IGNORES = "(trap '' TERM; while :; do sleep 1000; done) &\nsetsid sleep 1000 &\necho pids $$ $(jobs -p); wait"
"""Hangs, with a child in a session of its own, and one that no SIGTERM ends, which starts others."""


async def pids(tap: Tap) -> list[int]:
    """Return the processes of an installer that hangs, once it has told them."""
    return [int(word) for word in (await tap.until_told("pids")).split() if word.isdigit()]


class TestEnding:
    async def test_cancelled_it_is_gone_with_all_that_it_started(self, tap: Tap) -> None:
        tap.script(IGNORES)
        toolchains = tap.allowed()
        asked = asyncio.create_task(tap.satisfied(toolchains))
        started = await pids(tap)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        await asyncio.to_thread(lambda: [wait_until_gone(pid) for pid in started])
        assert len(started) == 3

    async def test_one_that_takes_too_long_is_ended(self, tap: Tap, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("agent_utilities.gateway.capabilities.installers.LIMIT_S", 0.2)
        tap.script("echo going; sleep 1000")
        toolchains = tap.allowed()
        told = "a/thing: 'thing' is not installed; its installer was ended after 0.2 s"
        assert (await tap.satisfied(toolchains)).startswith(told)


class TestTwoAtOnce:
    async def test_who_asks_for_the_same_finds_it_once_the_first_has_it(self, tap: Tap) -> None:
        tap.script(f"echo ran >>~/runs; echo begins; while [ ! -e ~/go ]; do sleep 0.02; done\n{INSTALLS}")
        toolchains = tap.allowed()
        first = asyncio.create_task(tap.satisfied(toolchains))
        await tap.until_told("begins")
        second = asyncio.create_task(tap.satisfied(toolchains))
        await tap.until_told("waiting for another installer to end")
        (tap.home / "go").touch()
        assert (await first, await second) == ("", "")
        assert (tap.home / "runs").read_text() == "ran\n"

    async def test_who_asks_while_an_abandoned_one_ends_has_one_of_their_own(self, tap: Tap) -> None:
        tap.script(f"if mkdir ~/first; then echo waiting; sleep 1000; fi\n{INSTALLS}")
        toolchains = tap.allowed()
        first = asyncio.create_task(tap.satisfied(toolchains))
        await tap.until_told("waiting")
        first.cancel()
        assert await tap.satisfied(toolchains) == ""

    async def test_others_wait_for_their_turn(self, tap: Tap) -> None:
        tap.script(f"mkdir ~/turn; echo begins; while [ ! -e ~/go ]; do sleep 0.02; done; rmdir ~/turn\n{INSTALLS}")
        tap.script("mkdir ~/turn", "", name="b/other")
        other = Capability("other", "other/default.toml", tap.folder, require=("b/other",))
        toolchains = tap.allowed()
        first = asyncio.create_task(tap.satisfied(toolchains))
        await tap.until_told("begins")
        second = asyncio.create_task(toolchains.satisfy(other, tap.lines.put_nowait))
        await tap.until_told("b/other: waiting for another installer to end")
        (tap.home / "go").touch()
        assert (await first, await second) == ("", [])

    @pytest.mark.nightly
    async def test_callers_who_come_and_go_are_all_answered_and_no_two_installers_run_at_once(self, tap: Tap) -> None:
        capabilities = [Capability(f"c{n}", "x", tap.folder, require=(f"a/c{n}",)) for n in range(3)]
        for n in range(3):
            takes_turn = "trap 'rmdir ~/turn' EXIT; mkdir ~/turn || touch ~/clash"
            tap.script(f"{takes_turn}\nsetsid sleep 1000 &\necho pid $!; sleep 0.0{n}5 & wait $!", name=f"a/c{n}")
        chance, started = random.Random(5), set[int]()

        def note(line: str) -> None:
            started.update([int(word) for word in line.split() if word.isdigit()] if " pid " in line else [])

        async def caller(toolchains: Toolchains) -> bool:
            asked = asyncio.create_task(toolchains.satisfy(chance.choice(capabilities), note))
            if chance.random() < 0.6:
                await asyncio.sleep(0.3 * chance.random())
                asked.cancel()
            (answer,) = await asyncio.gather(asked, return_exceptions=True)
            return isinstance(answer, list | asyncio.CancelledError)

        toolchains = tap.allowed()
        for _ in range(12):
            assert all(await asyncio.gather(*[caller(toolchains) for _ in range(12)]))
        assert started
        for pid in started:
            wait_until_gone(pid)
        assert not (tap.home / "clash").exists()


class TestAGatewayThatIsKilled:
    def test_leaves_no_process_of_an_installer(self, tap: Tap) -> None:
        tap.script(HANGS)
        command = [sys.executable, str(Path(__file__).with_name("installing_gateway.py")), str(tap.folder)]
        gateway = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=tap.environ, start_new_session=True)
        try:
            assert gateway.stdout is not None
            started = [int(word) for word in next(line for line in gateway.stdout if "pids" in line).split()[2:]]
        finally:
            gateway.kill()
            gateway.wait()
        assert len(started) == 2
        for pid in started:
            wait_until_gone(pid)
        gateway.stdout.close()
