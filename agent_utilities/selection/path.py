"""A selection in a URL's path: `/x/git,time/readonly` after an endpoint's own, as on GitHub's MCP server.

It is of the URL, as the query is: `/mcp/x/git` asks for what `/mcp?toolsets=git` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_utilities.errors import SelectionError
from agent_utilities.selection.model import NOTHING, Selection
from agent_utilities.selection.parse import read_pairs

SOURCE = "URL path"
TOOLSETS, READ_ONLY = "x", "readonly"
_FORM = "give toolsets, such as /x/git,time or /x/git/readonly, or /readonly alone"


class PathError(SelectionError):
    """A path that names nothing: there is no such place (404)."""


@dataclass(frozen=True, slots=True)
class PathSelection:
    """What a path asks for.

    Args:
        toolsets: names with commas between them, as they stand after `/x/`; None where the path has none.
        read_only: whether it ends in `/readonly`.
    """

    toolsets: str | None = None
    read_only: bool = False

    def as_pairs(self) -> list[tuple[str, str]]:
        """Return the items of a URL query that ask for the same."""
        toolsets = [("toolsets", self.toolsets)] if self.toolsets is not None else []
        return toolsets + ([("read_only", "true")] if self.read_only else [])

    def names(self) -> Selection:
        """Return the selection of the toolsets alone: what of a path can name nothing.

        Raises:
            SelectionError: they can't be read.
        """
        return read_path(PathSelection(self.toolsets))


NO_PATH = PathSelection()
"""What a path asks for that ends with the endpoint's own."""


def parse_path(segments: Sequence[str]) -> PathSelection | None:
    """Return what the segments after an endpoint's path ask for; None where they are no selection.

    Args:
        segments: percent-decoded, without the slashes; a last one that is empty is a slash at the end.

    Raises:
        PathError: they begin as a selection and do not end as one: a bound must not be passed over.
    """
    given = list(segments[:-1] if segments and not segments[-1] else segments)
    if not given:
        return NO_PATH
    if given == [READ_ONLY]:
        return PathSelection(read_only=True)
    if given[0] != TOOLSETS:
        return None
    if len(given) < 2 or not given[1].strip():
        raise PathError("the path names no toolset", "/".join(["", *segments]), SOURCE, _FORM)
    if len(given) == 2:
        return PathSelection(given[1])
    if given[2:] == [READ_ONLY]:
        return PathSelection(given[1], read_only=True)
    raise PathError("the path ends in what is no selection", "/".join(["", *segments]), SOURCE, _FORM)


def read_path(path: PathSelection) -> Selection:
    """Return the selection of a path.

    Raises:
        SelectionError: its names can't be read.
    """
    return read_pairs(path.as_pairs(), "query", SOURCE) if path != NO_PATH else NOTHING
