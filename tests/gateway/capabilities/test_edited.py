"""Edited bundles: what is broken or empty for now stays as it was, what is gone is gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agent_utilities.gateway.capabilities.model import Capabilities, Capability
from agent_utilities.gateway.capabilities.tap import edited, read_capabilities
from tests.gateway.capabilities.written import BROWSER, write

CLOCK = Capability("clock", "clock/x.toml", Path("clock"), require=("a/clock",))
BEFORE = Capabilities({"clock": CLOCK})


def test_a_broken_bundle_stays_as_it_was_and_its_problem_is_told() -> None:
    now = edited(BEFORE, Capabilities(problems=("clock: wrong",), broken=frozenset({"clock"})))
    assert (now.by_name, now.problems) == ({"clock": CLOCK}, ("clock: wrong",))


def test_an_empty_bundle_stays_as_it_was() -> None:
    assert edited(BEFORE, Capabilities({"clock": replace(CLOCK, require=())})).by_name == {"clock": CLOCK}


def test_a_bundle_that_is_gone_is_gone() -> None:
    assert edited(BEFORE, Capabilities()) == Capabilities()


def test_a_bundle_that_was_never_whole_is_not_there() -> None:
    assert edited(Capabilities(), Capabilities(broken=frozenset({"clock"}))).by_name == {}


def test_a_finished_edit_is_taken() -> None:
    now = Capabilities({"clock": replace(CLOCK, title="Clocks")})
    assert edited(BEFORE, now) == now


def test_reading_tells_which_bundles_are_broken(tmp_path: Path) -> None:
    write(tmp_path, {"browser/chrome.toml": BROWSER, "bad/x.toml": "[[mcp"})
    assert read_capabilities([tmp_path]).broken == {"bad"}
