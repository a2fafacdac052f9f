"""What a bundle's files may have at the most, and what of too much is told."""

from __future__ import annotations

import re
from pathlib import Path

from agent_utilities.gateway.capabilities.tap import read_capabilities
from tests.gateway.capabilities.written import TOOLCHAIN, write


def test_a_title_that_is_too_long_is_shortened(tmp_path: Path) -> None:
    for n, title in ((200, "x" * 200), (201, "x" * 199 + "\N{HORIZONTAL ELLIPSIS}")):
        write(tmp_path, {"docker/docker.toml": f'title = "{"x" * n}"\n{TOOLCHAIN}'})
        assert read_capabilities([tmp_path]).by_name["docker"].title == title


def test_keys_that_nothing_reads_are_told_wherever_they_stand(tmp_path: Path) -> None:
    provider = f"{TOOLCHAIN}\n[mcp]\nserver = 1\n[roles.mpc]\nx = 1\n[roles.mcp]\nservers = 1\n[dep]\nx = 1\n"
    write(tmp_path, {"docker/docker.toml": provider, "docker/config.toml": "trigger = []\n"})
    read = read_capabilities([tmp_path])
    assert "docker" in read.by_name
    told = {re.sub(".*/docker/", "", notice).partition(" is not known")[0] for notice in read.notices}
    assert told == {
        "docker.toml: mcp: the key 'server'",
        "docker.toml: roles: the key 'mpc'",
        "docker.toml: roles.mcp: the key 'servers'",
        "docker.toml: the key 'dep'",
        "config.toml: the key 'trigger'",
    }


def test_a_folder_without_a_file_of_toml_is_no_bundle(tmp_path: Path) -> None:
    write(tmp_path, {"docker/docker.toml": TOOLCHAIN, "pictures of mine/one.png": b"", "README.md": "words"})
    read = read_capabilities([tmp_path])
    assert (list(read.by_name), read.problems) == (["docker"], ())
