"""The environment of an upstream's process: what its config says and a few harmless variables of ours, no more."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from agent_utilities.upstream.config import UpstreamConfig

PASSED_ON = frozenset(
    {
        # Who and where one is, as in the SDK's own list.
        *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"),
        # Language, time, and where files belong.
        *("LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
        # Whom to trust: paths of certificates, without which nothing is downloaded behind many a firewall.
        *("CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    }
)
"""Names of our variables that every upstream gets; of the locale, every `LC_` one too."""
PROXIES = re.compile(r"(?:https?|all|no)_proxy", re.IGNORECASE)
"""Names of variables that upstreams get too, where no password is in them."""
_NO_SETTINGS = {"MCP_CONFIG_FILE": "none"}


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return those of our variables that an upstream gets.

    Args:
        environ: our environment.
    """
    return {name: value for name, value in environ.items() if _is_harmless(name, value)}


def child_environment(config: UpstreamConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an upstream's process: its config's variables over ours that are passed on.

    A settings file of ours is for the gateway, which holds what it says by the names that callers see: an upstream
    made here that starts in the same folder would read it again, by its own names. One may be named for it.

    Args:
        config: the upstream's config.
        environ: our environment.
    """
    return _NO_SETTINGS | passed_on(environ) | {name: value.get_secret_value() for name, value in config.env.items()}


def _is_harmless(name: str, value: str) -> bool:
    if value.startswith("()"):  # a shell function
        return False
    if PROXIES.fullmatch(name):
        return "@" not in value or not urlsplit(value if "://" in value else f"//{value}").username
    return name in PASSED_ON or name.startswith("LC_")
