"""The list of commands, which is made without importing any."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest
import typer

from agent_utilities.cli.app import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_each_command_what_it_says_itself(name: str) -> None:
    module, told = COMMANDS[name]
    command = typer.main.get_command(import_module(f"agent_utilities.cli.{module}").app)
    assert " ".join((command.help or "").partition("\n\n")[0].split()) == told


def test_a_command_that_there_is_not_is_told_with_the_one_that_was_meant() -> None:
    program = "import sys; sys.argv[1:] = ['explian']; from agent_utilities.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: No such command 'explian'. Did you mean 'explain'?\n")
