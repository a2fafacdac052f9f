"""Whatever stands in a bundle's files, reading them tells what is wrong, and never fails."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agent_utilities.gateway.capabilities.servers import servers_of
from agent_utilities.gateway.capabilities.tap import read_capabilities
from tests.gateway.capabilities.written import TOOLCHAIN, write

_OF_SERVERS = "name type command args url env headers timeout_seconds tools"
_OF_FILES = "require server_refs allowed_tools title description triggers domains other mcp.servers"
KEYS = st.sampled_from([*_OF_SERVERS.split(), *_OF_FILES.split(), '"a b"', '"\\u001b"'])
TEXTS = st.one_of(
    st.sampled_from(
        ["stdio", "http", "builtin", "x", "a:b", "", "../x", "${env:A}", "{{ENV:A}}", "${", "}", "https://x"]
    ),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\"\\'"), max_size=12),
)
SCALARS = st.one_of(
    TEXTS.map(lambda text: f'"{text}"'),
    st.integers(-5, 5).map(str),
    st.sampled_from(["true", "false", "inf", "nan", "-inf", "1.5", "1979-05-27", "07:32:00", "[]", "{}"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inside: st.one_of(
        st.lists(inside, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.sampled_from(["A", "b", '"a b"']), inside, max_size=2).map(
            lambda items: "{ " + ", ".join(f"{key} = {value}" for key, value in items.items()) + " }"
        ),
    ),
    max_leaves=5,
)
LINES = st.one_of(
    st.tuples(KEYS, VALUES).map(" = ".join),
    st.sampled_from(
        ["[deps]", "[roles.mcp]", "[roles]", "[mcp]", "[[mcp.servers]]", "[[deps]]", "# Title: x", "]", "="]
    ),
)
FILES = st.one_of(st.lists(LINES, max_size=12).map("\n".join).map(str.encode), st.binary(max_size=40))
SERVER = b'[[mcp.servers]]\nname = "s"\n'


@given(
    provider=st.one_of(
        FILES,
        st.lists(st.tuples(KEYS, VALUES).map(" = ".join), max_size=6).map(
            lambda lines: SERVER + "\n".join(lines).encode()
        ),
    ),
    config=FILES,
    default=st.one_of(st.none(), FILES, TEXTS.map(str.encode)),
    chosen=st.one_of(st.none(), TEXTS),
)
def test_any_files_cost_no_other_bundle_and_raise_nothing(provider, config, default, chosen):
    with tempfile.TemporaryDirectory() as folder:
        files = {"odd/x.toml": provider, "odd/config.toml": config, "docker/docker.toml": TOOLCHAIN}
        bundles = write(Path(folder), files if default is None else {**files, "odd/default.toml": default})
        read = read_capabilities([bundles], providers={} if chosen is None else {"odd": chosen})
        placed = servers_of(read, [], {"A": "s3cret"}, Path(folder))
    assert "docker" in read.by_name
    assert ("odd" in read.by_name) == (not read.problems)
    assert all("; " in line for line in read.problems)
    told = (*read.problems, *read.notices, *placed.notices, *placed.unavailable.values())
    assert all(line.isprintable() and len(line) <= 1100 and "s3cret" not in line for line in told)
    assert all(name in placed.configs for names in placed.by_capability.values() for name in names)
