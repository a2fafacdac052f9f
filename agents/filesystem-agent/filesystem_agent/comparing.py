"""`diff_files`: how two files differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from filesystem_agent.budget import Budget
from filesystem_agent.contents import read_whole
from filesystem_agent.descent import place_to_read
from filesystem_agent.errors import explaining
from filesystem_agent.text import N_SAMPLE_BYTES, choose_encoding, decode, is_binary, split_lines
from filesystem_agent.unified import find_changes, unified_diff
from filesystem_agent.viewing import Encoding, PathToRead
from filesystem_agent.workspace import Workspace


@dataclass(frozen=True)
class FileDiff:
    """A comparison. `is_minimal` is false where the files were too large or slow to compare line by line."""

    are_identical: bool
    are_binary: bool
    diff: str
    truncated: bool
    is_minimal: bool


def diff_files(
    workspace: Workspace,
    /,
    old_path: PathToRead,
    new_path: PathToRead,
    n_context_lines: Annotated[int, Field(description="Unchanged lines around changes.", ge=0, le=100)] = 3,
    encoding: Encoding = None,
) -> FileDiff:
    """Compare two text files as a unified diff."""
    budget = Budget(workspace.settings)
    old_name, old_data = _read(workspace, old_path)
    new_name, new_data = _read(workspace, new_path)
    if old_data == new_data:
        return FileDiff(True, is_binary(old_data[:N_SAMPLE_BYTES]), "", False, True)
    if encoding is None and (is_binary(old_data[:N_SAMPLE_BYTES]) or is_binary(new_data[:N_SAMPLE_BYTES])):
        return FileDiff(False, True, "", False, True)
    old, new = (
        split_lines(decode(data, choose_encoding(encoding, data[:N_SAMPLE_BYTES]))) for data in (old_data, new_data)
    )
    changes, is_minimal = find_changes(old, new, budget.deadline)
    text, truncated = unified_diff(
        old,
        new,
        changes,
        old_name=old_name,
        new_name=new_name,
        n_context_lines=n_context_lines,
        max_chars=workspace.settings.max_result_chars,
    )
    return FileDiff(False, False, text, truncated, is_minimal)


def _read(workspace: Workspace, path: str) -> tuple[str, bytes]:
    with place_to_read(workspace, path) as place, place.open_file() as fd, explaining(place.shown):
        return place.shown, read_whole(fd, workspace.settings.max_read_bytes, place.shown)
