"""A URL's path is read as a selection of the query's channel, or refused whole."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.errors import SelectionError
from agent_utilities.selection.caller import PathError, PathSelection, parse_path, read_path
from agent_utilities.selection.merge import effective, merge
from agent_utilities.selection.model import NOTHING
from agent_utilities.selection.parse import read_request


def asked(toolsets: str | None = None, *, read_only: bool = False) -> PathSelection:
    pairs = [("toolsets", toolsets)] if toolsets is not None else []
    return tuple(pairs + [("read_only", "true")] * read_only)


def test_segments_are_a_selection_or_none() -> None:
    for segments, expected in [
        ([], ()),
        ([""], ()),
        (["x", "git,time"], asked("git,time")),
        (["x", "git", "readonly"], asked("git", read_only=True)),
        (["x", "readonly"], asked("readonly")),
        (["readonly", ""], asked(read_only=True)),
        (["x", "a/b"], asked("a/b")),
        (["y"], None),
        (["X", "git"], None),
        (["readonly", "x", "git"], None),
    ]:
        assert parse_path(segments) == expected


def test_what_begins_as_one_and_is_none_is_refused() -> None:
    for segments in [["x"], ["x", ""], ["x", "", ""], ["x", " "], ["x", "git", "x"], ["x", "git", "", ""]]:
        with pytest.raises(PathError, match="such as /x/git,time"):
            parse_path(segments)


def test_it_asks_for_what_a_query_asks_for() -> None:
    path, query = (
        read_path(asked("git,time", read_only=True)),
        read_request(b"toolsets=git,time&read_only=1", ()),
    )
    assert effective(path).bounds_digest == effective(query).bounds_digest


def test_it_is_united_with_the_query_and_tells_where_each_came_from() -> None:
    (setting,) = effective(merge(read_path(asked("git")), read_request(b"toolsets=time", ()))).allow_tools
    assert setting.origins == ("URL path", "query toolsets")


def test_nothing_is_asked_for_where_no_path_is() -> None:
    assert read_path(()) is NOTHING


@given(toolsets=st.text(st.characters(exclude_categories=["Cs"]), min_size=1), read_only=st.booleans())
def test_any_text_is_read_or_refused_as_in_a_query(toolsets: str, read_only: bool) -> None:
    query = f"toolsets={quote(toolsets)}&read_only={read_only}".encode()
    read = []
    for reader in (lambda: read_path(asked(toolsets, read_only=read_only)), lambda: read_request(query, ())):
        try:
            read.append(effective(reader()).bounds_digest)
        except SelectionError as error:
            read.append(error.what)
    assert read[0] == read[1]
