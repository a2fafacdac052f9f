"""Bundles written to a folder, in the form of the public taps."""

from __future__ import annotations

from pathlib import Path

BROWSER = """\
# capabilities/browser/chrome.toml
# Title: Browser (Chrome)
# Description: Open pages and look at them.

[deps]
require = ["example/chrome"]

[roles.mcp]
server_refs = ["chrome"]
allowed_tools = ["chrome:*"]

[[mcp.servers]]
name = "chrome"
type = "stdio"
command = "npx"
args = ["chrome-mcp", "--headless"]
timeout_seconds = 120
tools = []
"""

SEARCH = """\
# Title: Web Search

[roles.mcp]
server_refs = ["search"]
allowed_tools = ["search:web_*", "news"]

[[mcp.servers]]
name = "search"
type = "http"
url = "https://search.example.com/mcp"
headers = { Authorization = "Bearer {{ENV:SEARCH_KEY}}" }
"""

TOOLCHAIN = """\
# Title: Docker

[deps]
require = ["docker/docker"]
"""

CONFIG = """\
# Capability metadata.
triggers = ["browse a website", "take a screenshot of a page"]
domains = ["developer"]
"""


def write(bundles: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a folder, and return the folder.

    Args:
        bundles: the folder.
        files: by path, such as `browser/config.toml`, what stands in each.
    """
    for name, text in files.items():
        path = bundles / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    return bundles
