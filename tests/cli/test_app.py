"""The list of commands, which is made without importing any."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer

from agent_utilities.cli.app import COMMANDS
from agent_utilities.server.command_line.options import documented
from tests.every import every


def commands(name: str) -> Iterator[Any]:
    """Yield a command, and those in it."""
    command = documented(typer.main.get_command(import_module(f"agent_utilities.cli.{COMMANDS[name][0]}").app))
    yield from (command, *getattr(command, "commands", {}).values())


@every("name", COMMANDS)
class TestHelp:
    def test_says_of_every_option_what_it_does(self, name: str) -> None:
        for command in commands(name):
            assert [each.name for each in command.params if not each.help and each.name != "help"] == []

    def test_of_a_command_ends_before_its_options(self, name: str) -> None:
        for command in commands(name):
            assert "Args:" not in command.help


@every("name", COMMANDS)
def test_the_list_says_of_each_command_what_it_says_itself(name: str) -> None:
    command, *_ = commands(name)
    assert " ".join(command.help.partition("\n\n")[0].split()) == COMMANDS[name][1]


def test_a_command_that_there_is_not_is_told_with_the_one_that_was_meant() -> None:
    program = "import sys; sys.argv[1:] = ['explian']; from agent_utilities.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: No such command 'explian'. Did you mean 'explain'?\n")
