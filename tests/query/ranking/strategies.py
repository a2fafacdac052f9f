"""Hypothesis strategies for catalogs and requests that share words."""

from __future__ import annotations

from hypothesis import strategies as st

from agent_utilities.catalog.document import ToolDocument

words = st.sampled_from(
    ["git", "log", "file", "read", "delete", "weather", "repo", "Queue", "天气", "the", "x1", "GitHub", "github"]
)
texts = st.lists(words, max_size=8).map(" ".join)
documents = st.builds(
    ToolDocument,
    name=st.lists(words, min_size=1, max_size=3).map("_".join),
    description=texts,
    tags=st.lists(words, max_size=2).map(tuple),
    server=st.sampled_from(["", "a", "b"]),
    own_name=st.sampled_from(["", "log", "read_file"]),
    server_text=st.sampled_from(["", "Work with a git repo"]),
)
catalogs = st.lists(documents, max_size=12)
