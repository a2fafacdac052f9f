"""`agent-utilities gateway login`: the user logs in at an upstream, once."""

from __future__ import annotations

import os
import sys

import anyio

from agent_utilities.errors import InputError
from agent_utilities.selection.nearest import nearest
from agent_utilities.settings_file import settings_of
from agent_utilities.upstream.config import GatewayConfig, UpstreamConfig
from agent_utilities.upstream.errors import UpstreamError


def login_at(name: str, config: GatewayConfig) -> None:
    """Have the user log in at an upstream, in a browser, and keep what it gives.

    Args:
        name: the upstream's.
        config: what the files say.

    Raises:
        InputError: there is no upstream of that name, or none that one logs in at.
        UpstreamError: the login failed.
    """
    from agent_utilities.upstream.http.login import log_in

    upstream = _named(name, config)
    print(f"opening a browser for {name}; waiting until you have logged in", file=sys.stderr)
    try:
        anyio.run(log_in, upstream, settings_of(os.environ).gateway_folder)
    except Exception as error:
        raise UpstreamError(name, "refused", f"the login failed, {_innermost(error)}") from error
    print(f"logged in at {name}")


def _named(name: str, config: GatewayConfig) -> UpstreamConfig:
    if any(upstream.name == name and upstream.transport == "stdio" for upstream in config.upstreams):
        hint = "it is a command on this machine; give it keys by `env` in its entry of the config"
        raise InputError("a stdio server has no login", name, "argument NAME", hint)
    remote = {upstream.name: upstream for upstream in config.upstreams if upstream.transport != "stdio"}
    if name in remote:
        return remote[name]
    near = nearest(name, remote)
    meant = f"did you mean {near!r}? " if near else ""
    there = ", ".join(remote) or "none"
    raise InputError("no server to log in at", name, "argument NAME", f"{meant}there are: {there}")


def _innermost(error: BaseException) -> str:
    """Return what an error says, or the first of a group of them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
