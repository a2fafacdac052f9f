"""The page's link as a file that its user alone can read: a command's arguments are seen by everybody on a machine."""

from __future__ import annotations

from html import escape
from pathlib import Path

from agent_utilities.runtime.process_io import write_whole

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}"><title>The page</title><p><a href="{link}">The page</a></p></html>"""


def link_file(name: str) -> Path:
    """Return the file that leads to a page: of a server that runs here, by its port."""
    import platformdirs

    return Path(platformdirs.user_state_dir("agent-utilities")) / "page" / f"{name}.html"


def keep_link(name: str, link: str) -> Path:
    """Keep a link for whoever it is for to open; return the file.

    Raises:
        OSError: it can't be written.
    """
    file = link_file(name)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(file, _PAGE.format(link=escape(link)).encode())
    return file
