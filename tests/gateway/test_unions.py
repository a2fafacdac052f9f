"""What all upstreams list is taken in short steps, so that nobody waits while one lists thousands of tools (law L7)."""

from __future__ import annotations

from agent_utilities.gateway.provider import Union, union_of
from agent_utilities.gateway.upstreams.operator.lock import lock_of
from agent_utilities.gateway.upstreams.operator.operator_rules import OperatorRules
from agent_utilities.gateway.waiting_calls import WaitingCalls
from agent_utilities.policy.bounds import Steps, finish
from tests.every import every
from tests.gateway.test_components import upstream
from tests.pace import LONGEST, pace
from tests.policy.test_steps import longest_s


@every("is_locked", [False, True])
def test_no_step_is_long_however_many_tools_an_operators_rules_are_asked_of(is_locked: bool) -> None:
    tools = (f"some_tool_name_{i}" for i in range(5_000))
    up = upstream("up", *tools, config={"deny": frozenset(f"*_{i}_delete_*" for i in range(8))})
    assert up.snapshot is not None
    waiting, rules = WaitingCalls(), OperatorRules(lock_of([up.snapshot]) if is_locked else None)

    def making(before: Union) -> Steps[Union]:
        return union_of([up], before, rules.denials, waiting, lambda _, uri: uri, {})  # type: ignore[list-item]  # nothing is called

    known = finish(making(Union()))
    # The least of several: what else the machine does must not count.
    longest = []
    for _ in range(5):
        unit = pace()
        longest.append(longest_s(making(known)) / unit)
        if min(longest) < LONGEST:
            break
    assert min(longest) < LONGEST
