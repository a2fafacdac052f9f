"""`write_file` and `edit_file`: changing what a file says, all at once or not at all."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from filesystem_agent.arranging import make_directories
from filesystem_agent.contents import read_whole, sha256_hex
from filesystem_agent.descent import place_to_change
from filesystem_agent.errors import explaining, refusal
from filesystem_agent.places import Place
from filesystem_agent.replacing import replace_text
from filesystem_agent.staging import replace_file
from filesystem_agent.text import (
    N_SAMPLE_BYTES,
    choose_encoding,
    decode,
    encode,
    encode_back,
    is_binary,
)
from filesystem_agent.workspace import Workspace

PathToChange = Annotated[str, Field(description="File, relative to the first root or absolute.", min_length=1)]
ExpectedSha256 = Annotated[
    str | None,
    Field(description="Refuse if the file's sha256 is another.", pattern="^[0-9a-fA-F]{64}$"),
]


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written."""

    path: str
    size_bytes: int
    sha256: str
    created: bool


@dataclass(frozen=True)
class EditedFile:
    """An edit, or with `dry_run` what it would be."""

    path: str
    n_replacements: int
    diff: str
    truncated: bool
    sha256: str
    applied: bool


def write_file(
    workspace: Workspace,
    /,
    path: PathToChange,
    content: Annotated[str, Field(description="The whole new content.")],
    as_base64: Annotated[bool, Field(description="`content` is base64 of the bytes.")] = False,
    encoding: Annotated[str, Field(description="Encoding of the text written.")] = "utf-8",
    create_only: Annotated[bool, Field(description="Refuse if the file exists.")] = False,
    create_parents: Annotated[bool, Field(description="Create missing directories.")] = False,
    expected_sha256: ExpectedSha256 = None,
) -> WrittenFile:
    """Create a file or replace its content, atomically."""
    data = _decode_base64(content) if as_base64 else encode(content, choose_encoding(encoding, b""))
    if create_parents:
        parent, _, _ = path.rstrip("/").rpartition("/")
        make_directories(workspace, parent or ("/" if path.startswith("/") else "."))
    with place_to_change(workspace, path) as place:
        created = replace_file(workspace, place, data, create_only=create_only, expected_sha256=expected_sha256)
        return WrittenFile(place.shown, len(data), sha256_hex(data), created)


def edit_file(
    workspace: Workspace,
    /,
    path: PathToChange,
    old_text: Annotated[str, Field(description="Exact text to replace; must occur once.", min_length=1)],
    new_text: Annotated[str, Field(description="Text to put in its place.")],
    replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False,
    dry_run: Annotated[bool, Field(description="Only show the diff.")] = False,
    encoding: Annotated[str | None, Field(description="Text encoding; default: BOM, else UTF-8.")] = None,
    expected_sha256: ExpectedSha256 = None,
) -> EditedFile:
    """Replace exact text in a file and show the diff. Line ends are kept."""
    with place_to_change(workspace, path) as place:
        data = _read_for_edit(workspace, place, expected_sha256)
        if encoding is None and is_binary(data[:N_SAMPLE_BYTES]):
            raise refusal("file is binary", place.shown, "use write_file with as_base64")
        chosen = choose_encoding(encoding, data[:N_SAMPLE_BYTES])
        text = decode(data, chosen)
        if encode_back(text, chosen) != data:
            raise refusal("file can't be edited in this encoding without changing other text", chosen)
        for part in (old_text, new_text):
            encode(part, chosen)
        edit = replace_text(
            text,
            old_text,
            new_text,
            shown=place.shown,
            replace_all=replace_all,
            max_chars=min(workspace.settings.max_write_bytes, workspace.settings.max_read_bytes),
            max_diff_chars=workspace.settings.max_result_chars,
        )
        new_data = encode_back(edit.text, chosen)
        if not dry_run:
            replace_file(workspace, place, new_data, expected_sha256=sha256_hex(data))
        return EditedFile(
            place.shown,
            edit.n_replacements,
            edit.diff,
            edit.diff_truncated,
            sha256_hex(new_data),
            not dry_run,
        )


def _read_for_edit(workspace: Workspace, place: Place, expected_sha256: str | None) -> bytes:
    with place.open_file() as fd, explaining(place.shown):
        data = read_whole(fd, workspace.settings.max_read_bytes, place.shown)
    actual = sha256_hex(data)
    if expected_sha256 is not None and actual != expected_sha256.lower():
        raise refusal("file has changed since it was read", place.shown, f"its sha256 is {actual}; view it again")
    return data


def _decode_base64(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise refusal("content is not base64", content[:40], "give base64, or text without as_base64") from error
