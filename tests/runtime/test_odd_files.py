"""What is no file is read by nobody, and nobody waits for it, wherever a file of an operator or a user is read."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agent_utilities.access.record.chain import verify
from agent_utilities.cli.client_file import add_entry
from agent_utilities.errors import AgentUtilitiesError
from agent_utilities.gateway.capabilities.bundle_file import read_within
from agent_utilities.gateway.upstreams.configuration.config_files import read_config
from agent_utilities.gateway.upstreams.configuration.config_text import read_env_file
from agent_utilities.gateway.upstreams.configuration.host_files import HOSTS
from agent_utilities.gateway.upstreams.operator.lock import read_lock
from agent_utilities.gateway.upstreams.processes.stderr_log import read_log
from agent_utilities.gateway.upstreams.sealed_store import read_key
from agent_utilities.gateway.upstreams.snapshot_store import read
from agent_utilities.runtime.process_io import open_regular, read_whole, write_whole
from agent_utilities.settings_file import read_files
from agent_utilities.usage.database import open_log
from agent_utilities.usage.model import UsageError, read_salt
from tests.every import every
from tests.runtime.odd_files import ODD

READERS: dict[str, Callable[[Path], object]] = {
    "settings": lambda path: read_files({"MCP_CONFIG_FILE": str(path)}),
    "secret key": lambda path: read_key("", str(path)),
    "gateway": lambda path: read_config([path], {}),
    "env file": lambda path: read_env_file(path),
    "lock": read_lock,
    "bundle": lambda path: read_within(path, path.parent),
    "snapshot": read,
    "record": lambda path: verify([path]),
    "host": lambda path: add_entry(path, HOSTS["cursor"], "git", {}, replace=False),
    "usage": open_log,
}


@pytest.mark.timeout(20)
@every("odd", ODD)
@every("reader", [pytest.param(read, id=name) for name, read in READERS.items()])
def test_is_refused(reader: Callable[[Path], object], odd: Callable[[Path], object], tmp_path: Path) -> None:
    odd(tmp_path / "odd")
    with pytest.raises((AgentUtilitiesError, OSError)):
        reader(tmp_path / "odd")


@pytest.mark.timeout(20)
@every("odd", ODD[:-1])  # a link that leads nowhere is followed, and a salt drawn
def test_is_no_salt(odd: Callable[[Path], object], tmp_path: Path) -> None:
    odd(tmp_path / "log.salt")
    with pytest.raises(UsageError):
        read_salt(tmp_path / "log")


@pytest.mark.timeout(20)
@every("odd", ODD)
def test_no_lines_are_read_of_it(odd: Callable[[Path], object], tmp_path: Path) -> None:
    odd(tmp_path / "git.log")
    assert read_log(tmp_path / "git.log", 5) == []


@every("odd", ODD)
def test_nothing_stays_open(odd: Callable[[Path], object], tmp_path: Path) -> None:
    odd(tmp_path / "odd")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with suppress(OSError):
            open_regular(tmp_path / "odd")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_read_up_to_its_bound_and_refused_beyond(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert read_whole(tmp_path / "file", 10) == b"x" * 10
    with pytest.raises(OSError, match="over 9 bytes"):
        read_whole(tmp_path / "file", 9)


@every("mode", [0o600, 0o640])
def test_what_is_written_by_a_link_is_in_the_file_that_it_leads_to(mode: int, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real/file")
    write_whole(tmp_path / "link", b"new", mode=mode)
    assert (tmp_path / "link").readlink() == Path("real/file")
    assert (tmp_path / "real" / "file").read_bytes() == b"new"
    assert (tmp_path / "real" / "file").stat().st_mode & 0o777 == mode
    assert os.listdir(tmp_path / "real") == ["file"]
