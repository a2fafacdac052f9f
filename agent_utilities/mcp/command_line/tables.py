"""Text and tables on a terminal, in which names stay in one piece as far as there is room for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from agent_utilities.upstream.configuration.config_text import shown

_GAP = 2
"""Columns of a terminal between two columns of a table."""
_BETWEEN_WORDS = re.compile(r"(?<=[ \n=/&?|])(?<!≈ )|(?<=,)(?!\d)")
_NUMBER = re.compile(r"([-+]?[\d,.]+( ?%| ms)?( +[-+][\d.]+)?)?")
_IN_NAMES = re.compile(r"(?<=[^\W_][_.:-])")


def plain(text: str) -> str:
    """Return a text that a console without emoji prints as it is: no markup of it counts, and none of it acts."""
    return escape(shown(text, len(text)))


class NamesTable:
    """A table that a console prints no wider than it is: words are wrapped, and names are kept whole before texts are.

    Columns of numbers are flush right. A name is broken only where the terminal is too narrow for it, after `_`, `.`,
    `:` or `-` if that is enough.

    Args:
        title: what stands over it, as markup; empty for nothing.
        headings: of its columns. One without a heading is of charts, and left out where they would need others' room.
        n_names: how many columns, the first ones, have names, which are broken last.
    """

    def __init__(self, title: str, *headings: str, n_names: int = 1) -> None:
        self._title, self._headings, self._n_names = title, headings, n_names
        self._rows: list[list[Text]] = []
        self._lines: set[int] = set()

    def add_row(self, *cells: str | Text) -> None:
        """Add a row, of markup or of text that is printed as it is."""
        self._rows.append([Text.from_markup(cell, emoji=False) if isinstance(cell, str) else cell for cell in cells])

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return len(self._rows)

    def add_line(self) -> None:
        """Draw a line below the last row."""
        self._lines.add(len(self._rows) - 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the title and the table, as rich asks for them."""
        if self._title:
            yield Text.from_markup(self._title, style="italic", emoji=False)
        columns = [[Text(heading), *cells] for heading, *cells in zip(self._headings, *self._rows, strict=True)]
        room = options.max_width - _GAP * (len(columns) - 1)
        texts = [column for column in columns if column[0].plain]
        widths = _widths(texts, room, self._n_names)
        charts = [max(map(_width, column)) for column in columns if not column[0].plain]
        has_charts = sum(widths) + sum(charts) <= room
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        shown = []
        for column in columns:
            if not column[0].plain and not has_charts:
                continue
            width = widths.pop(0) if column[0].plain else charts.pop(0)
            is_number = all(_NUMBER.fullmatch(cell.plain) for cell in column[1:])
            shown.append([_wrapped(text, width) for text in column])
            table.add_column(shown[-1][0], justify="right" if is_number else "left", no_wrap=True, width=width)
        for i, cells in enumerate(zip(*(column[1:] for column in shown), strict=True)):
            table.add_row(*cells, end_section=i in self._lines)
        yield table


def _widths(columns: Sequence[Sequence[Text]], room: int, n_names: int) -> list[int]:
    """Return how wide each column is: as its longest name, and of what is left a share of what its texts would take."""
    wanted = [max(map(_width, column)) for column in columns]
    if sum(wanted) <= room:
        return wanted
    for n_whole in (len(columns), n_names, 0):
        widths = [_least(column, is_whole=i < n_whole) for i, column in enumerate(columns)]
        if sum(widths) <= room:
            break
    while sum(widths) > room and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    while sum(widths) < room:
        # The narrowest grows first: short texts stay on a line beside long ones.
        growing = min((i for i in range(len(widths)) if widths[i] < wanted[i]), key=lambda i: widths[i])
        widths[growing] += 1
    return widths


def _least(column: Sequence[Text], *, is_whole: bool) -> int:
    pieces = [piece for text in column for piece in _pieces(text)]
    return max(_width(part) for piece in pieces for part in ([piece] if is_whole else _split(piece, _IN_NAMES)))


def _wrapped(text: Text, width: int) -> Text:
    if cell_len(text.plain) <= width and "\n" not in text.plain:
        return text
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        filled = Text()
        for piece in _fitting(_pieces(line), width):
            if filled and cell_len((filled + piece).plain.rstrip()) > width:
                lines.append(filled)
                filled = Text()
            filled += piece
        lines.append(filled)
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def _fitting(pieces: Sequence[Text], width: int) -> Iterator[Text]:
    """Yield pieces, those that are too long for a line in parts."""
    for piece in pieces:
        if _width(piece) <= width:
            yield piece
            continue
        for part in _split(piece, _IN_NAMES):
            if _width(part) <= width:
                yield part
            else:
                ends = [len(chopped) for chopped in chop_cells(part.plain, width)]
                yield from part.divide([sum(ends[: i + 1]) for i in range(len(ends) - 1)])


def _pieces(text: Text) -> list[Text]:
    return _split(text, _BETWEEN_WORDS)


def _split(text: Text, where: re.Pattern[str]) -> list[Text]:
    return list(text.divide([match.start() for match in where.finditer(text.plain) if match.start()]))


def _width(text: Text) -> int:
    return max(cell_len(line.rstrip()) for line in text.plain.split("\n"))
