"""Snapshots on disk: what is saved is loaded, whatever damage, full disks and other users do."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_utilities.gateway.upstreams import snapshot_store
from agent_utilities.gateway.upstreams.config import UpstreamConfig
from agent_utilities.gateway.upstreams.snapshot import Snapshot
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.every import every
from tests.gateway.upstreams.snapshots import config, snapshot, tool

ROOT = Path(__file__).parents[3]
GIT = config()


def saved(folder: Path, of: UpstreamConfig = GIT, value: Snapshot | None = None) -> SnapshotStore:
    store = SnapshotStore(folder)
    store.load(of)
    store.save(value or snapshot(of))
    return store


def files(folder: Path, suffix: str = snapshot_store.SUFFIX) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name.endswith(suffix))


class TestWhatIsSaved:
    def test_is_loaded_by_another_process_with_the_digest_of_what_it_lists(self, tmp_path: Path) -> None:
        value = snapshot(GIT, tool(_meta={"a": [1, None, "ü"]}, title="Status"))
        saved(tmp_path)
        saved(tmp_path, value=value)
        loaded = SnapshotStore(tmp_path).load(GIT)
        assert loaded is not None
        assert loaded.model_dump() == value.model_dump()
        assert loaded.digest == value.digest == Snapshot.model_validate(loaded.model_dump()).digest

    def test_is_not_another_configs(self, tmp_path: Path) -> None:
        for other in [{"command": "other"}, {"args": ("--all",)}]:
            for is_on_disk in [True, False]:
                assert saved(tmp_path if is_on_disk else Path(os.devnull)).load(config(**other)) is None

    def test_is_not_another_upstreams_that_reads_alike(self, tmp_path: Path) -> None:
        saved(tmp_path, config("a/b"))
        assert SnapshotStore(tmp_path).load(config("a b")) is None
        assert SnapshotStore(tmp_path).load(config("../" * 99 + "\0\ud800")) is None

    def test_is_for_its_user_alone(self, tmp_path: Path) -> None:
        (tmp_path / "open" / "1").mkdir(parents=True, mode=0o755)
        for folder in (tmp_path / "made" / "here", tmp_path / "open"):
            saved(folder)
            (file,) = files(folder)
            assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]


DAMAGE = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "one byte changed": lambda content: content.replace(b"git_status", b"git_Status"),
    "another version": lambda content: content.replace(b"snapshot 1", b"snapshot 2"),
    "not a snapshot": lambda content: b"hello",
    "digest changed": lambda content: content.replace(content.split(b"\n")[0][-4:], b"0000", 1),
}


class TestDamage:
    @every("damage", DAMAGE)
    def test_is_told_and_mended_by_the_next_listing(
        self, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.clear()
        saved(tmp_path)
        (file,) = files(tmp_path)
        file.write_bytes(DAMAGE[damage](file.read_bytes()))
        store = SnapshotStore(tmp_path)
        assert store.load(GIT) is None
        assert "can't be read: it " in caplog.text
        store.save(snapshot(GIT))
        assert SnapshotStore(tmp_path).load(GIT) == snapshot(GIT)

    def test_another_upstreams_file_under_its_name_is_passed_over(self, tmp_path: Path) -> None:
        saved(tmp_path, config("evil"))
        files(tmp_path)[0].rename(tmp_path / "1" / snapshot_store.file_name(GIT.name, GIT.digest))
        assert SnapshotStore(tmp_path).load(GIT) is None

    def test_a_file_with_a_valid_sum_and_no_snapshot_is_passed_over(self, tmp_path: Path) -> None:
        saved(tmp_path)
        (file,) = files(tmp_path)
        body, digest = b'{"tools": 3}', "0" * 32
        checksum = snapshot_store._checksum(body + digest.encode())
        file.write_bytes(f"{snapshot_store.FORMAT} {checksum}:{digest}\n".encode() + body)
        assert SnapshotStore(tmp_path).load(GIT) is None


class TestWhatIsOld:
    def test_configs_of_an_upstream_are_bounded(self, tmp_path: Path) -> None:
        saved(tmp_path, config("other"))
        configs = [config(command=str(number)) for number in range(snapshot_store.N_CONFIGS + 2)]
        for age, of in zip(range(len(configs), 0, -1), configs, strict=True):
            saved(tmp_path, of)
            when = time.time() - age
            os.utime(tmp_path / "1" / snapshot_store.file_name(of.name, of.digest), (when, when))
        saved(tmp_path, configs[-1])
        found = [SnapshotStore(tmp_path).load(of) is not None for of in configs]
        assert found == [False] * 2 + [True] * snapshot_store.N_CONFIGS
        assert SnapshotStore(tmp_path).load(config("other")) is not None

    def test_files_that_nobody_renewed_and_leftovers_of_a_kill_are_removed(self, tmp_path: Path) -> None:
        saved(tmp_path, config("gone"))
        partial = tmp_path / "1" / f"x{snapshot_store.PARTIAL_SUFFIX}"
        partial.touch()
        for path, age_s in ((files(tmp_path)[0], snapshot_store.LONGEST_S), (partial, 3600)):
            when = time.time() - age_s - 60
            os.utime(path, (when, when))
        fresh = partial.with_name(f"y{snapshot_store.PARTIAL_SUFFIX}")
        fresh.touch()
        saved(tmp_path)
        assert [path.name for path in files(tmp_path, "")] == [
            snapshot_store.file_name(GIT.name, GIT.digest),
            fresh.name,
        ]


class TestWhereNothingCanBeWritten:
    def test_it_goes_on_in_memory_and_says_so_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / "file").touch()
        store = SnapshotStore(tmp_path / "file")
        for of in (GIT, config("other")):
            store.load(of)
            store.save(snapshot(of))
        assert [store.load(of) for of in (GIT, config("other"))] == [snapshot(GIT), snapshot(config("other"))]
        assert [record.levelno for record in caplog.records if "in memory only" in record.message] == [logging.WARNING]
        assert "in memory only" in store.problem

    def test_it_writes_again_when_it_can(self, tmp_path: Path) -> None:
        (tmp_path / "folder").touch()
        store = saved(tmp_path / "folder")
        (tmp_path / "folder").unlink()
        store.save(snapshot(GIT))
        assert store.problem == ""
        assert SnapshotStore(tmp_path / "folder").load(GIT) == snapshot(GIT)

    @pytest.mark.outside
    @pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are POSIX")
    def test_a_full_disk_leaves_the_old_snapshot_whole(self, tmp_path: Path) -> None:
        saved(tmp_path)
        full = """
import resource, sys
from pathlib import Path
from agent_utilities.gateway.upstreams.snapshot_store import SnapshotStore
from tests.gateway.upstreams.snapshots import config, snapshot, tool
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
store = SnapshotStore(Path(sys.argv[1]))
store.load(config())
new = snapshot(config(), tool(description="long" * 9999))
store.save(new)
assert store.load(config()) == new
print(store.problem)
"""
        done = subprocess.run(
            [sys.executable, "-c", full, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert "in memory only" in done.stdout, done.stderr
        assert files(tmp_path, "") == files(tmp_path)
        assert SnapshotStore(tmp_path).load(GIT) == snapshot(GIT)

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives folders away")
    def test_a_folder_of_another_user_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        saved(tmp_path)
        os.chown(tmp_path / "1", 4242, 4242)
        monkeypatch.setattr(os, "geteuid", lambda: 4243)
        store = SnapshotStore(tmp_path)
        assert store.load(GIT) is None
        store.save(snapshot(GIT))
        assert "belongs to user 4242" in store.problem


class TestAServerThatCameLate:
    def test_is_remembered_until_it_has_a_snapshot(self, tmp_path: Path) -> None:
        store = SnapshotStore(tmp_path)
        store.note_late(GIT)
        assert SnapshotStore(tmp_path).is_late(GIT)
        assert not store.is_late(config(command="other"))
        assert store.load(GIT) is None
        store.save(snapshot(GIT))
        assert not SnapshotStore(tmp_path).is_late(GIT)

    def test_is_remembered_in_a_few_of_its_configs(self, tmp_path: Path) -> None:
        for number in range(12):
            SnapshotStore(tmp_path).note_late(config(command=f"git{number}"))
        assert len(files(tmp_path, snapshot_store.LATE_SUFFIX)) == snapshot_store.N_CONFIGS
