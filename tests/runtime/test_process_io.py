"""Log records that no text fills."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from agent_utilities.runtime.process_io import ShortRecord
from tests.every import every

LONG = "z" * 3_000_000


@pytest.fixture
def logged() -> Iterator[tuple[logging.Logger, io.StringIO]]:
    before, out = logging.getLogRecordFactory(), io.StringIO()
    handler, logger = logging.StreamHandler(out), logging.getLogger("tests.of.log.records")
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    logging.setLogRecordFactory(ShortRecord)
    try:
        yield logger, out
    finally:
        logging.setLogRecordFactory(before)
        logger.removeHandler(handler)


def test_a_text_is_cut_and_the_rest_of_the_line_stays(logged: tuple[logging.Logger, io.StringIO]) -> None:
    logged[0].warning("name=%r revision=%s n=%d", LONG, "abc", 3)
    assert logged[1].getvalue() == f"name={'z' * 200 + '… (3000000 characters)'!r} revision=abc n=3\n"


@every(
    ("message", "args"),
    [
        (LONG, ()),
        ("%(name)s", ({"name": LONG},)),
        ("%s", (ValueError(LONG),)),
        ("%s", ([LONG],)),
    ],
)
def test_no_line_is_long_whatever_it_is_made_of(
    logged: tuple[logging.Logger, io.StringIO], message: str, args: tuple[object, ...]
) -> None:
    logged[1].truncate(0)
    logged[0].warning(message, *args)
    assert 0 < len(logged[1].getvalue().strip("\0")) < 4_100


def test_a_traceback_is_cut(logged: tuple[logging.Logger, io.StringIO]) -> None:
    try:
        raise ValueError(LONG)
    except ValueError:
        logged[0].exception("failed")
    assert "Traceback" in logged[1].getvalue()
    assert len(logged[1].getvalue()) < 4_200


def test_of_a_long_traceback_the_end_stays_which_says_what_went_wrong(
    logged: tuple[logging.Logger, io.StringIO],
) -> None:
    def fail(depth: int) -> None:
        if not depth:
            raise ValueError(f"the reason {LONG}")
        try:
            fail(depth - 1)
        except ValueError as error:
            raise error from None

    try:
        fail(100)
    except ValueError:
        logged[0].exception("failed")
    assert "ValueError: the reason zzz" in logged[1].getvalue()
    assert len(logged[1].getvalue()) < 4_200


def test_what_is_short_stays_as_it_is(logged: tuple[logging.Logger, io.StringIO]) -> None:
    logged[0].warning("%s of %d", "two", 2)
    assert logged[1].getvalue() == "two of 2\n"


@pytest.mark.outside
def test_input_that_is_ended_gives_what_came_and_then_its_end_though_the_pipe_is_open() -> None:
    program = "import sys; from agent_utilities.runtime.process_io import EndableStdin; ours = EndableStdin()\n"
    program += "print(sys.stdin.readline(), end='', flush=True); ours.end(); print(repr(sys.stdin.read()))"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write("one\n")
        process.stdin.flush()
        assert process.stdout.read() == "one\n''\n"
        process.stdin.close()
