"""A whole catalog is judged in short steps, as each of its entries would be by itself."""

from __future__ import annotations

import time

from hypothesis import given, settings

from agent_utilities.catalog.model import Catalog, entry
from agent_utilities.policy.bounds import Bounds, Steps, finish
from agent_utilities.policy.decision import decide
from agent_utilities.selection.merge import Effective, effective
from agent_utilities.selection.model import load_comparison
from agent_utilities.selection.parse import MAX_GLOBS, read_request
from tests.laws.given import Spelled, catalogs, read, spelled_lists
from tests.pace import LONGEST, pace


def hostile() -> Effective:
    """The most that a query string may ask: globs whose parts all stand in every name, and which fit none."""
    fields = ("tools", "disabled_toolsets", "tags", "disabled_tags")
    globs = [",".join(f"*o*o*{i % 10}*_*{field[0]}{i}*" for i in range(MAX_GLOBS)) for field in fields]
    return effective(read_request("&".join(map("=".join, zip(fields, globs, strict=True))).encode(), ()))


def longest_s(steps: Steps[object]) -> float:
    """Return the CPU seconds of the longest step."""
    spent = []
    while True:
        started = time.thread_time()
        try:
            next(steps)
        except StopIteration:
            return max(spent, default=0.0)
        finally:
            spent.append(time.thread_time() - started)


@settings(max_examples=50)
@given(catalogs, spelled_lists())
def test_each_entry_is_refused_by_the_rule_that_refuses_it_alone(catalog: Catalog, asked: list[Spelled]) -> None:
    bounds = Bounds(effective(read(asked)))
    of_one_name = {e.name: e for e in catalog.entries}
    alone = Catalog(tuple(of_one_name.values()))
    assert finish(bounds.judging(alone)) == tuple(map(bounds.refusal, alone.entries))


def test_no_step_is_long_however_many_globs_meet_however_many_tools() -> None:
    load_comparison()
    asked = hostile()
    tools = [entry("tool", f"server_{i % 37}_some_tool_name_{i}", tags={f"tool_o_{i}"}) for i in range(10_000)]
    # The least of several: what else the machine does must not count.
    judging, finding = [], []
    for _ in range(5):
        catalog, unit = Catalog(tuple(tools)), pace()
        judging.append(longest_s(Bounds(asked).judging(catalog)) / unit)
        finding.append(longest_s(decide(catalog, asked).finding_unknown()) / unit)
        if min(judging) < LONGEST > min(finding):
            break
    assert min(judging) < LONGEST > min(finding)
