"""Node.js and npm packages for tests, kept in the user's cache folder, outside the checkout.

A test that can't have them is skipped with the reason; a pin that doesn't exist is an error.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import platformdirs
import pytest

OLDEST = (22, 19)
"""The oldest Node.js that every pinned package runs on."""
NODE = "22.23.3"
CONFORMANCE = "0.2.0-alpha.12"
INSPECTOR = "2.12.0"

_INSTALL_S = 300
_NO_SUCH_PIN = ("E404", "ETARGET")


@cache
def conformance() -> list[str]:
    """Return the command of the official conformance suite."""
    package = installed("@modelcontextprotocol/conformance", CONFORMANCE)
    return [node(), str(package / "dist" / "index.js")]


@cache
def inspector() -> list[str]:
    """Return the command of the MCP Inspector."""
    package = installed("@modelcontextprotocol/inspector", INSPECTOR)
    return [node(), str(package / "clients" / "launcher" / "build" / "index.js")]


@cache
def node() -> str:
    """Return the path of a Node.js that is new enough: the one on PATH, else npm's `node` package."""
    found = shutil.which("node")
    if found is not None and _version(found) >= OLDEST:
        return found
    # The package's install script fetches the program for this machine.
    own = installed("node", NODE, scripts=True) / "bin" / "node"
    if _version(str(own)) < OLDEST:
        pytest.skip(f"npm's node {NODE} does not run here; put Node.js {_spelled(OLDEST)} or newer on PATH")
    return str(own)


def installed(name: str, version: str, *, scripts: bool = False) -> Path:
    """Return the folder of an npm package, installed if it isn't yet.

    A package appears under its final name whole or not at all, so that two processes may install at once.

    Args:
        name: the package.
        version: its exact version.
        scripts: whether its install scripts may run.
    """
    final = _root() / f"{name.removeprefix('@').replace('/', '-')}-{version}"
    package = final / "node_modules" / name
    if package.is_dir():
        return package
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"npm is not on PATH, and {name} {version} is not installed yet")
    _root().mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=".installing-", dir=_root()))
    try:
        _install(npm, staging, f"{name}@{version}", scripts)
        try:
            os.rename(staging, final)
        except OSError:
            if not package.is_dir():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return package


def _install(npm: str, folder: Path, spec: str, scripts: bool) -> None:
    flags = [
        "--no-audit",
        "--no-fund",
        "--no-save",
        "--no-package-lock",
        "--engine-strict=false",
        "--fetch-retries=1",
        "--loglevel=error",
    ]
    if not scripts:
        flags.append("--ignore-scripts")
    try:
        done = subprocess.run(
            [npm, "install", "--prefix", str(folder), *flags, spec],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm did not install {spec} within {_INSTALL_S} s")
    if done.returncode == 0:
        return
    code = re.search(r"npm error code (\w+)", done.stderr)
    if code is not None and code[1] in _NO_SUCH_PIN:
        raise RuntimeError(f"npm has no {spec}: {code[1]}")
    pytest.skip(f"npm could not install {spec}: {code[1] if code else f'exit {done.returncode}'}")


def _root() -> Path:
    machine = f"{sys.platform}-{platform.machine()}".lower()
    return Path(platformdirs.user_cache_dir("agent-utilities")) / "node" / machine


def _version(program: str) -> tuple[int, ...]:
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30)
    except OSError:
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", done.stdout))


def _spelled(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
