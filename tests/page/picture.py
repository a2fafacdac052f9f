"""Writes the README's picture of the page: `python -m tests.page.picture FILE`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.page import serving
from tests.page.browser import launched, visiting

MOST_BYTES = 200_000
SIZE = {"width": 1280, "height": 860}
_SELECTION = "/page/surface?tools=git_*,files_*&read_only=true"


def take(file: Path) -> None:
    """Write a picture of Surface, of a gateway of five servers, with a selection that is tried."""
    with (
        tempfile.TemporaryDirectory() as folder,
        serving.gateway(Path(folder)) as gateway,
        launched() as browser,
        visiting(browser, gateway.link, viewport=SIZE, color_scheme="light") as visit,
    ):
        gateway.listed()  # all servers have come
        visit.page.goto(f"{gateway.url}{_SELECTION}")
        visit.page.screenshot(path=file)
    if (size := file.stat().st_size) > MOST_BYTES:
        sys.exit(f"error: {file} has {size:,} bytes, of {MOST_BYTES:,} at most")
    print(f"{file}: {size:,} bytes")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
