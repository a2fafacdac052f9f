"""The page on programs: its transcript is what a model reads, and its limits are those of the code."""

from __future__ import annotations

import pytest

from agent_utilities.programs.program import Limits
from agent_utilities.programs.running import MEMORY
from tests.docs.tables import ROOT, with_tables

TEXT = (ROOT / "docs/programs.md").read_text(encoding="utf-8")


def test_the_transcript_is_what_a_model_reads() -> None:
    pytest.importorskip("pydantic_monty")
    assert with_tables(TEXT) == TEXT


def test_the_limits_are_those_of_the_code() -> None:
    limits = Limits()
    values = (
        f"{limits.wall_s:g} s",
        f"{limits.own_s:g} s",
        f"{MEMORY >> 20} MiB",
        f"{limits.calls}, {limits.calls_at_once}",
        f"{limits.data_bytes >> 20} MiB",
        f"{limits.printed_bytes >> 10} KiB",
    )
    table = TEXT.partition("| limit | value |")[2].partition("\n\n")[0]
    assert tuple(line.split("|")[2].strip() for line in table.splitlines()[2:]) == values
