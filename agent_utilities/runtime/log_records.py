"""Log records of a bounded length, whoever wrote the text that is in them."""

from __future__ import annotations

import logging
import traceback
from typing import Any

_TEXT_CHARACTERS = 200
"""The most of one text, such as a name that a caller made up."""
_LINE_CHARACTERS = 4_000
"""The most of a message, and of a traceback."""


class ShortRecord(logging.LogRecord):
    """A log record that no text fills: what a caller or an upstream gave is cut, at 200 characters, as is the message.

    `logging.setLogRecordFactory` has every logger of the process make these, libraries' too.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if isinstance(self.args, tuple):
            self.args = tuple(_cut_text(arg) for arg in self.args)
        elif self.args:
            self.args = {name: _cut_text(arg) for name, arg in self.args.items()}
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = _cut("".join(traceback.format_exception(*self.exc_info)).rstrip(), _LINE_CHARACTERS)

    def getMessage(self) -> str:
        """Return the message, at most 4,000 characters of it."""
        return _cut(super().getMessage(), _LINE_CHARACTERS)


def _cut_text(arg: object) -> object:
    if isinstance(arg, str):
        return _cut(arg, _TEXT_CHARACTERS)
    if isinstance(arg, BaseException) and len(text := str(arg)) > _TEXT_CHARACTERS:
        return _cut(text, _TEXT_CHARACTERS)
    return arg


def _cut(text: str, n_characters: int) -> str:
    return text if len(text) <= n_characters else f"{text[:n_characters]}… ({len(text)} characters)"
