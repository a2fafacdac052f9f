"""The end of a command whose output nobody reads any more, as under `head`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_for_gone_reader() -> Iterator[None]:
    """End with code 1 and without a word where whoever read the output has gone; around all that a command does."""
    has_gone = False
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:  # which may be closed from the start
                sys.stdout.flush()
    except* BrokenPipeError:  # alone, or as a stdio server's tasks raise it
        has_gone = True
    if has_gone:
        # The interpreter flushes once more as it ends; what is left then goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        sys.exit(1)
