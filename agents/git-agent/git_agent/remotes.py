"""To and from other repositories: `clone_repo`, `git_push`."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from pathlib import Path
from typing import Annotated, Literal

from fastmcp.exceptions import ToolError
from pydantic import Field

from git_agent.addresses import Address, parse_address
from git_agent.command import environment, git_program, hardened, run_git
from git_agent.parameters import Repo
from git_agent.repository import Repository, inspect, open_repository
from git_agent.results import Cloned, Pushed
from git_agent.revisions import branch_commit, checked_branch, head_branch, head_commit
from git_agent.roots import locate
from git_agent.settings import Settings, read_settings
from git_agent.text import checked_name, clipped, decoded

OUTCOMES: dict[str, Literal["created", "updated", "forced", "up_to_date"]] = {
    "*": "created",
    " ": "updated",
    "+": "forced",
    "=": "up_to_date",
}


def clone_repo(
    url: Annotated[str, Field(description="https url, or path of a repository inside the allowed root")],
    path: Annotated[
        str | None,
        Field(description="New folder, relative to the allowed root; default: named after the url"),
    ] = None,
    branch: Annotated[str | None, Field(description="Check out this branch or tag")] = None,
    depth: Annotated[int | None, Field(description="Only this many commits", ge=1, le=1_000_000)] = None,
) -> Cloned:
    """Clone a repository into a new folder inside the allowed root. Submodules are not fetched."""
    settings = read_settings()
    address = parse_address(settings, url)
    folder = _new_folder(settings, path if path is not None else _name_of(url))
    chosen = [f"--branch={checked_name(branch, 'branch')}"] if branch is not None else []
    run_git(
        settings,
        [
            *("clone", "--quiet", "--no-local", "--template=", "--origin=origin", "--no-recurse-submodules"),
            *chosen,
            *([f"--depth={depth}"] if depth is not None else []),
            *(_serving(settings, "--upload-pack", "upload-pack", "--strict") if address.local else []),
            *("--", address.url, str(folder)),
        ],
        cwd=Path(folder.anchor),  # git prefers a folder named like the url, if there is one where it runs
        protocol=address.protocol,
        write=True,
    )
    cloned = inspect(settings, folder, settings.shown(folder))
    return Cloned(cloned.shown, head_branch(cloned), head_commit(cloned))


def git_push(
    repo: Repo = ".",
    remote: Annotated[str, Field(description="Name of a configured remote")] = "origin",
    branch: Annotated[str | None, Field(description="Local branch; default: the current one")] = None,
    set_upstream: Annotated[bool, Field(description="Track the remote branch from now on")] = False,
    force_with_lease: Annotated[
        bool, Field(description="Overwrite the remote branch if it is where it was last seen")
    ] = False,
) -> Pushed:
    """Push one branch to the branch of the same name on a remote. Hooks do not run on this side."""
    checked_name(remote, "remote")
    repository = open_repository(repo)
    name = checked_branch(repository, branch) if branch is not None else head_branch(repository)
    if name is None:
        raise ToolError("HEAD is detached; name the branch to push")
    if branch_commit(repository, name) is None:
        raise ToolError(f"no such local branch with commits: {name!r}")
    address = _push_address(repository, remote)
    ref = f"refs/heads/{name}"
    done = repository.git(
        *("push", "--porcelain", "--no-verify", "--no-signed", "--no-recurse-submodules", "--no-follow-tags"),
        *(["--set-upstream"] if set_upstream else []),
        *([f"--force-with-lease={ref}"] if force_with_lease else []),
        *(_serving(repository.settings, "--receive-pack", "receive-pack") if address.local else []),
        *("--", remote, f"{ref}:{ref}"),
        protocol=address.protocol,
        codes=(0, 1),
        write=True,
    )
    for line in decoded(done.out).splitlines():
        flag, _, rest = line.partition("\t")
        if rest.startswith(f"{ref}:"):
            summary = clipped(rest.partition("\t")[2], 200)
            if flag in OUTCOMES:
                return Pushed(remote, name, OUTCOMES[flag], summary)
            raise ToolError(f"the remote refused {name!r}: {summary}")
    raise ToolError(f"git push failed: {repository.explained(done) or 'the remote gave no answer'}")


def _push_address(repository: Repository, remote: str) -> Address:
    """Return the checked address behind a remote's name.

    Raises:
        ToolError: no such remote, more than one address, or one that is not allowed.
    """
    names = repository.line("remote").splitlines()
    if remote not in names:
        near = difflib.get_close_matches(remote, names, n=1, cutoff=0.0)
        raise ToolError(
            f"no such remote: {remote!r}" + (f"; did you mean {near[0]!r}?" if near else "; none is configured")
        )
    configured = repository.git("config", "--get-all", f"remote.{remote}.url", codes=(0, 1))
    urls = repository.line("remote", "get-url", "--push", "--all", "--", remote).splitlines()
    if configured.code or len(urls) != 1:
        raise ToolError(f"remote {remote!r} must have exactly one url, it has {len(urls)}")
    base = repository.top or repository.git_dir
    return parse_address(repository.settings, urls[0], base=base, may_hold_password=True)


def _serving(settings: Settings, option: str, *command: str) -> list[str]:
    """Return the option that has the other side of a local transfer run hardened as well.

    git takes our config from the environment of the process it starts there, hooks and all.
    """
    program = git_program(environment(settings, protocol="none", ceiling=Path("/"), write=True))
    return [f"{option}={shlex.join([*hardened(settings, program), *command])}"]


def _new_folder(settings: Settings, value: str) -> Path:
    folder = locate(settings, value, "path")
    if any(part.lower() == ".git" for part in folder.parts):
        raise ToolError(f"path must not lead into a .git folder: {value!r}")
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ToolError(f"path exists and is not an empty folder: {value!r}")
    if not folder.parent.is_dir():
        raise ToolError(f"parent folder does not exist: {value!r}")
    return folder


def _name_of(url: str) -> str:
    last = re.split(r"[/:]", url.rstrip("/").removesuffix("/.git"))[-1].removesuffix(".git").removesuffix(".bundle")
    name = re.sub(r"[^A-Za-z0-9._-]", "-", last).lstrip("-.")
    if not name:
        raise ToolError(f"no folder name can be made from {url!r}; pass path")
    return name
