"""A capability's patterns are of its servers, and nothing of another's namespace is."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_utilities.capabilities.model import Capability, CapabilityServer


def capability(allowed: tuple[str, ...] | None, tools: tuple[str, ...] = ()) -> Capability:
    servers = (CapabilityServer("code", {"command": "code"}, tools), CapabilityServer("docs", {"command": "docs"}))
    return Capability("code", "code/x.toml", Path("code"), allowed_tools=allowed, servers=servers)


@pytest.mark.parametrize(
    ("allowed", "wanted"),
    [
        (None, ("*",)),
        (("code:*",), ("*",)),
        (("code:view", "code:find_*"), ("view", "find_*")),
        (("docs:*",), ()),
        (("view",), ("view",)),
        (("view", "code:view"), ("view",)),
        ((), ()),
    ],
)
def test_patterns_lose_their_namespace_and_others_are_dropped(
    allowed: tuple[str, ...] | None, wanted: tuple[str, ...]
) -> None:
    assert capability(allowed).patterns_for("code") == wanted


def test_the_tools_of_a_server_block_narrow_what_is_wanted_of_it() -> None:
    assert capability(("code:*",), ("view", "find")).patterns_for("code") == ("view", "find")
    assert capability(("code:v*",), ("view", "find")).patterns_for("code") == ("view",)


def test_what_has_requirements_alone_is_a_toolchain() -> None:
    toolchain = Capability("docker", "docker/docker.toml", Path("docker"), require=("docker/docker",))
    assert toolchain.is_toolchain
    assert not capability(None).is_toolchain
