"""What a release says of itself: its version and names, `server.json`, the notes, and what it still waits for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEVELOPED_AS = "agent-utilities"
"""The name in this repository. On package indexes it is somebody else's, so that nothing is published by it."""


class CheckError(Exception):
    """A check failed; the message says at what."""


@dataclass(frozen=True)
class Project:
    """What `pyproject.toml` says of a release.

    Args:
        name: what it is published as on a package index; empty where nobody has said.
        registry_name: its name in the MCP registry, such as `io.github.OWNER/NAME`; empty where nobody has said.
        old_paths_end: the first version without `agent_utilities/moved.py`.
        build_constraints: exact versions of what builds it.
        pythons: the versions of Python that it is for, oldest first.
    """

    version: str
    name: str
    registry_name: str
    old_paths_end: str
    build_constraints: tuple[str, ...]
    pythons: tuple[str, ...]

    @property
    def built_as(self) -> str:
        """The name that is built by: that in this repository, until another is said."""
        return self.name or DEVELOPED_AS


def read_project(text: str) -> Project:
    """Return what a `pyproject.toml` says of a release."""
    said = tomllib.loads(text)
    told, project = said["tool"]["release"], said["project"]
    minors = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project["classifiers"]]
    return Project(
        version=project["version"],
        name=told["name"],
        registry_name=told["registry-name"],
        old_paths_end=told["old-paths-end"],
        build_constraints=tuple(told["build-constraints"]),
        pythons=tuple(found[1] for found in minors if found),
    )


def missing(project: Project, changelog: str) -> list[str]:
    """Return what a release still waits for that no check can find out, a line each."""
    lines = []
    if not project.name:
        lines.append("nobody has said under which name: [tool.release] name in pyproject.toml")
    elif re.sub(r"[-_.]+", "-", project.name).lower() == DEVELOPED_AS:
        lines.append(f"the name {project.name!r} is somebody else's on package indexes: choose another")
    if not project.registry_name:
        lines.append("nobody has said under which name in the MCP registry: [tool.release] registry-name")
    if section(changelog, "Unreleased"):
        lines.append(f"CHANGELOG.md has entries under [Unreleased], after {project.version}: give them a version")
    return lines


def section(changelog: str, version: str) -> str:
    """Return what a changelog says of a version, without its heading; empty where it says nothing."""
    found = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def notes(changelog: str, project: Project, old_paths: Mapping[str, str]) -> str:
    """Return the notes of a version: its part of the changelog, and old paths with the version that they end with.

    They are of what is not released yet, as long as the changelog has any of it.

    Raises:
        CheckError: the changelog says nothing of the version, or the old paths should have gone by now.
    """
    told = section(changelog, "Unreleased") or section(changelog, project.version)
    if not told:
        raise CheckError(f"CHANGELOG.md says nothing of {project.version}: give it a heading, with its date")
    if not old_paths:
        return f"{told}\n"
    if _numbers(project.version) >= _numbers(project.old_paths_end):
        raise CheckError(f"old paths end with {project.old_paths_end}, and agent_utilities/moved.py is still there")
    lines = [f"- `agent_utilities.{old}` is `{f'agent_utilities.{now}'.rstrip('.')}`" for old, now in old_paths.items()]
    head = f"### Ends with {project.old_paths_end}\n\nThese old paths work until then, with a `DeprecationWarning`:"
    return "\n".join([told, "", head, *lines, ""])


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def filled_in(template: Mapping[str, Any], project: Project) -> dict[str, Any]:
    """Return a `server.json` with the version, and the names where they are said."""
    package = {**template["packages"][0], "version": project.version}
    if project.name:
        package["identifier"] = project.name
    told = {**template, "version": project.version, "packages": [package, *template["packages"][1:]]}
    return {**told, "name": project.registry_name or template["name"]}


def rename(tree: Path, project: Project) -> None:
    """Have a copy of the repository say the name that it is published by, wherever it looks itself up by it.

    Raises:
        CheckError: what says it is not where it was.
    """
    if not project.name:
        return
    script = '[project.scripts]\nagent-utilities = "agent_utilities.cli.app:main"\n'
    # `uvx NAME`, as the MCP registry's clients run it, looks for a program of that name.
    more = f'{project.name} = "agent_utilities.cli.app:main"\n'
    edits: list[tuple[str, str, str]] = [
        ("pyproject.toml", f'\nname = "{DEVELOPED_AS}"\n', f'\nname = "{project.name}"\n'),
        ("pyproject.toml", script, script + more),
        ("agent_utilities/cli/new.py", 'PUBLISHED_AS = ""', f'PUBLISHED_AS = "{project.name}"'),
    ]
    asked = f'version("{DEVELOPED_AS}")'
    for path in sorted((tree / "agent_utilities").rglob("*.py")):
        if asked in path.read_text(encoding="utf-8"):
            edits.append((str(path.relative_to(tree)), asked, f'version("{project.name}")'))
    for name, old, new in edits:
        text = (tree / name).read_text(encoding="utf-8")
        if old not in text:
            raise CheckError(f"{name} does not say {old.strip()!r}: mend `rename` in release.py")
        (tree / name).write_text(text.replace(old, new), encoding="utf-8")
    if project.registry_name:  # by which the registry knows that whoever owns the package wants the entry
        with (tree / "README.md").open("a", encoding="utf-8") as readme:
            readme.write(f"\n<!-- mcp-name: {project.registry_name} -->\n")


def steps(dockerfile: str) -> list[str]:
    """Return the commands of a Dockerfile's `RUN` lines, in order."""
    lines = [line for line in dockerfile.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    runs = re.findall(r"^RUN (.*)$", joined, re.MULTILINE)
    return [" ".join(command.split()) for run in runs for command in run.split("&&")]
