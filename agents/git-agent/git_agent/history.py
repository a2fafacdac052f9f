"""What happened: `git_log`, `git_show`, `git_blame`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastmcp.exceptions import ToolError
from pydantic import Field

from git_agent.diff import differences
from git_agent.parameters import MaxBytes, Paths, Repo
from git_agent.repository import Repository, open_repository
from git_agent.results import Blame, BlameHunk, Commit, Log, Shown
from git_agent.revisions import head_commit, resolve, resolve_range
from git_agent.text import checked, checked_path, checked_paths, clipped, decoded, whole_lines

FORMAT = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%D%x00%B"
N_FIELDS = 7
MAX_NAME_CHARS = 200
MAX_MESSAGE_CHARS = 20_000
MAX_LINE_CHARS = 2000

Revision = Annotated[str, Field(description="Commit, branch or tag")]


def git_log(
    repo: Repo = ".",
    revision: Annotated[str, Field(description="Commit, branch, tag or range a..b")] = "HEAD",
    paths: Paths = None,
    author: Annotated[str | None, Field(description="Only authors containing this text")] = None,
    grep: Annotated[str | None, Field(description="Only messages containing this text")] = None,
    since: Annotated[str | None, Field(description="Only commits after this date")] = None,
    until: Annotated[str | None, Field(description="Only commits before this date")] = None,
    skip: Annotated[int, Field(description="Leave out this many first", ge=0, le=1_000_000)] = 0,
    max_count: Annotated[int, Field(description="At most this many commits", ge=1, le=500)] = 20,
) -> Log:
    """List commits, newest first, with the first line of their messages."""
    repository = open_repository(repo)
    wanted = {"author": author, "grep": grep, "since": since, "until": until}
    matching = [f"--{name}={checked(value, name)}" for name, value in wanted.items() if value is not None]
    scope = checked_paths(paths)
    if revision == "HEAD" and head_commit(repository) is None:
        return Log([])
    found, cut = _commits(
        repository,
        *(
            "--fixed-strings",
            "--regexp-ignore-case",
            f"--max-count={max_count + 1}",
            f"--skip={skip}",
            *matching,
        ),
        *resolve_range(repository, revision),
        *("--", *scope),
    )
    first_lines = [
        Commit(**{**vars(c), "message": clipped(c.message.split("\n", 1)[0], 500)}) for c in found[:max_count]
    ]
    return Log(first_lines, cut or len(found) > max_count)


def git_show(
    repo: Repo = ".",
    revision: Revision = "HEAD",
    path: Annotated[str | None, Field(description="Show this file as of the commit instead of changes")] = None,
    max_bytes: MaxBytes = 50_000,
) -> Shown:
    """Show one commit with its full message and patch, or a file's content at that commit."""
    file = None if path is None else checked_path(path)
    repository = open_repository(repo)
    oid = resolve(repository, revision)
    commits, _ = _commits(repository, "--max-count=1", oid, "--")
    if not commits:
        raise ToolError(f"no such commit: {revision!r}")
    if file is not None:
        return _file(repository, commits[0], file, max_bytes)
    diff = differences(repository, ["show", "--format="], [oid, "--"], context_lines=3, max_bytes=max_bytes)
    return Shown(commits[0], diff.files, diff.patch, truncated=diff.truncated)


def git_blame(
    path: Annotated[str, Field(description="File, relative to the top of the repository")],
    repo: Repo = ".",
    revision: Revision = "HEAD",
    start_line: Annotated[int, Field(description="First line, from 1", ge=1, le=10_000_000)] = 1,
    max_lines: Annotated[int, Field(description="At most this many lines", ge=1, le=2000)] = 200,
) -> Blame:
    """Show which commit last changed each line of a file, as runs of lines."""
    repository = open_repository(repo)
    name = checked_path(path)
    oid = resolve(repository, revision)
    if _kind(repository, oid, name) != "blob":
        raise ToolError(f"not a file at {revision!r}: {path!r}")
    lines = f"-L{start_line},+{max_lines + 1}"
    done = repository.git("blame", "--no-textconv", "--porcelain", lines, oid, "--", name, codes=(0, 128))
    if done.code == 128:
        if b"has only" in done.err:
            raise ToolError(f"start_line is past the end of {path!r}: {start_line!r}")
        raise ToolError(f"git blame failed for {path!r} at {revision!r}")
    return _hunks(whole_lines(done.out, len(done.out) - done.truncated), max_lines, done.truncated)


def _commits(repository: Repository, *args: str) -> tuple[list[Commit], bool]:
    done = repository.git(
        "log", "-z", f"--format={FORMAT}", "--no-show-signature", "--no-patch", "--no-ext-diff", *args
    )
    fields = decoded(done.out).split("\0")[:-1]
    commits = []
    for start in range(0, len(fields) - N_FIELDS + 1, N_FIELDS):
        oid, parents, author, email, date, refs, message = fields[start : start + N_FIELDS]
        commits.append(
            Commit(
                oid,
                parents.split(),
                clipped(author, MAX_NAME_CHARS),
                clipped(email, MAX_NAME_CHARS),
                date,
                [clipped(ref, MAX_NAME_CHARS) for ref in refs.split(", ") if ref][:50],
                clipped(message.strip("\n"), MAX_MESSAGE_CHARS),
            )
        )
    return commits, done.truncated


def _file(repository: Repository, commit: Commit, path: str, max_bytes: int) -> Shown:
    name = f"{commit.hash}:{path}"
    kind = _kind(repository, commit.hash, path)
    if kind != "blob":
        reason = "is a folder" if kind == "tree" else "does not exist" if kind is None else "is a submodule"
        raise ToolError(f"path {reason} at {commit.hash[:12]}: {path!r}")
    size_bytes = int(repository.line("cat-file", "-s", name))
    done = repository.git("cat-file", "blob", name, max_bytes=max_bytes)
    binary = b"\0" in done.out[:8000]
    content = None if binary else decoded(whole_lines(done.out, max_bytes - done.truncated))
    return Shown(commit, content=content, size_bytes=size_bytes, binary=binary, truncated=not binary and done.truncated)


def _kind(repository: Repository, oid: str, path: str) -> str | None:
    """Return the type of what lies at `path` in a commit."""
    name = oid + ":" + ("" if path == "." else path)
    done = repository.git("rev-parse", "--verify", "--quiet", "--end-of-options", name, codes=(0, 1, 128))
    if done.code:
        return None
    found = repository.git("cat-file", "-t", decoded(done.out).strip(), codes=(0, 128))
    return decoded(found.out).strip() or "commit"


def _hunks(out: bytes, max_lines: int, cut: bool) -> Blame:
    about: dict[str, dict[str, str]] = {}
    hunks: list[BlameHunk] = []
    oid, number, n_lines = "", 0, 0
    for raw in out.split(b"\n")[:-1]:
        line = decoded(raw)
        if line.startswith("\t"):
            n_lines += 1
            if n_lines > max_lines:
                return Blame(hunks, True)
            cut = cut or len(line) > MAX_LINE_CHARS + 1
            text = clipped(line[1:], MAX_LINE_CHARS)
            if hunks and hunks[-1].hash == oid:
                hunks[-1].lines.append(text)
            else:
                of = about[oid]
                hunks.append(
                    BlameHunk(
                        oid,
                        clipped(of.get("author", ""), MAX_NAME_CHARS),
                        _date(of.get("author-time", "0")),
                        clipped(of.get("summary", ""), MAX_NAME_CHARS),
                        number,
                        [text],
                    )
                )
            oid = ""
        elif not oid:
            oid, _, final, *_ = line.split(" ")
            number = int(final)
            about.setdefault(oid, {})
        else:
            key, _, value = line.partition(" ")
            about[oid][key] = value
    return Blame(hunks, cut)


def _date(seconds: str) -> str:
    try:
        return datetime.fromtimestamp(int(seconds), UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return seconds
