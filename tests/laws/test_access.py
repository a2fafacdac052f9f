"""Laws of access, over generated rules, claims, tokens and selections: the first rule that fits holds, and narrows."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_utilities.access.rules import LOCAL, RIGHTS, Rules
from agent_utilities.catalog.model import Catalog
from agent_utilities.errors import SettingsError
from agent_utilities.policy.decision import decide
from agent_utilities.selection.merge import effective, merge
from agent_utilities.selection.model import ACCESS_CHANNELS
from tests.every import every
from tests.laws.given import Spelled, catalogs, plain_permitted, read, spelled_lists
from tests.laws.given_access import (
    FILES,
    GIVEN,
    Claims,
    Table,
    absences,
    claims,
    fitting,
    in_other_orders,
    plain_rule,
    profile_as_settings,
    rules_of,
    tables,
)

OPERATOR, CALLER = spelled_lists("file", "project", "env", "cli"), spelled_lists("query", "header", "meta")


def number(rules: Rules, caller: Claims) -> int | None:
    """Return the number of the rule that holds for a caller."""
    rule = rules.access(caller).rule
    return rule.number if rule is not None else None


class TestWho:
    @given(tables, claims, absences)
    def test_the_rule_that_holds_is_the_one_that_the_contract_says(
        self, given: list[Table], caller: Claims, absent: set[str]
    ) -> None:
        assert number(rules_of(given, absent), caller) == plain_rule(given, caller, absent)

    @given(st.data(), tables, absences)
    def test_it_is_so_for_who_fits_a_rule_but_for_a_claim_that_they_left_out(
        self, data: st.DataObject, given: list[Table], absent: set[str]
    ) -> None:
        assume(given)
        caller = data.draw(fitting(data.draw(st.sampled_from(given))["who"]))
        for left_out in [None, *caller]:
            fewer = {name: value for name, value in caller.items() if name != left_out}
            assert number(rules_of(given, absent), fewer) == plain_rule(given, fewer, absent)

    @given(st.data(), tables)
    def test_leaving_a_claim_out_gives_no_later_rule(self, data: st.DataObject, given: list[Table]) -> None:
        assume(given)
        caller = data.draw(fitting(data.draw(st.sampled_from(given))["who"]))
        assume(caller.get("iss") != LOCAL)
        whole = number(rules_of(given), caller)
        assume(whole is not None)
        for left_out in caller:
            if left_out not in ("azp", "scope"):  # beside another name of the same
                fewer = {name: value for name, value in caller.items() if name != left_out}
                assert number(rules_of(given), fewer) in (None, *range(1, (whole or 0) + 1))

    @given(tables, claims, absences)
    def test_the_order_in_which_claims_and_keys_are_written_does_not_count(
        self, given: list[Table], caller: Claims, absent: set[str]
    ) -> None:
        held = number(rules_of(given, absent), caller)
        turned = [{**table, "who": dict(reversed(table["who"].items()))} for table in given]
        for other in in_other_orders(caller):
            assert number(rules_of(turned, absent), other) == held

    @given(tables, claims, absences)
    def test_each_rule_that_was_looked_at_has_its_reason_and_no_other_has(
        self, given: list[Table], caller: Claims, absent: set[str]
    ) -> None:
        rules = rules_of([{**table, "line": 3 * i} for i, table in enumerate(given, 1)], absent)
        access = rules.access(caller)
        named = [reason for reason in access.reasons if reason.startswith("rule ")]
        assert [reason.partition(")")[0] for reason in named] == [
            f"rule {i} (settings, line {3 * i}" for i in range(1, len(named) + 1)
        ]
        if access.rule is not None:
            assert len(access.reasons) == access.rule.number
            assert "fits" in named[-1]
        else:
            assert len(access.reasons) == len(named) + 1


class TestWhatIsPermitted:
    @given(catalogs, OPERATOR, CALLER, tables, claims, st.sampled_from([*GIVEN, "gone"]))
    def test_is_what_the_rule_the_token_the_operator_and_the_caller_all_permit(
        self,
        catalog: Catalog,
        operator: list[Spelled],
        caller: list[Spelled],
        given: list[Table],
        who: Claims,
        of_token: str,
    ) -> None:
        rule = rules_of(given).access(who).bounds(FILES)
        token = FILES.for_access(of_token, "token", "token ann")
        held = decide(catalog, effective(merge(read(operator + caller), rule, token)))
        fitting = plain_rule(given, who)
        of_rule = given[fitting - 1]["profile"] if fitting else "none" if given else "all"
        both = set(plain_permitted(operator + caller, catalog))
        for profile in (of_rule, of_token):
            if profile in ("none", "gone"):
                both = set()
            elif profile != "all":
                both &= set(plain_permitted(profile_as_settings(profile), catalog))
        assert set(held.permitted) == both

    @given(catalogs, st.sampled_from(GIVEN), OPERATOR, CALLER)
    def test_is_no_more_under_override_than_the_token_permits(
        self, catalog: Catalog, profile: str, operator: list[Spelled], caller: list[Spelled]
    ) -> None:
        token = FILES.for_access(profile, "token", "token ann")
        alone = decide(catalog, effective(token, "override"))
        held = decide(catalog, effective(merge(read(operator + caller), token), "override"))
        assert set(held.permitted) <= set(alone.permitted)

    @given(st.sampled_from([*GIVEN, "gone"]), st.sampled_from(ACCESS_CHANNELS))
    def test_stands_on_channels_that_nobody_writes(self, profile: str, channel: str) -> None:
        bounds = FILES.for_access(profile, channel, "rule 1")  # type: ignore[arg-type]
        assert {slot[1] for slot, _ in bounds.slots} <= {channel}
        assert {setting.side for _, setting in bounds.slots} <= {"operator"}
        assert all(origin.startswith("rule 1") for _, setting in bounds.slots for origin in setting.origins)

    @given(CALLER)
    def test_no_caller_writes_on_them(self, asked: list[Spelled]) -> None:
        assert {slot[1] for slot, _ in read(asked).slots}.isdisjoint(ACCESS_CHANNELS)


class TestShadowed:
    @given(st.data(), tables, tables, absences)
    def test_a_rule_that_is_told_to_be_never_holds(
        self, data: st.DataObject, given: list[Table], more: list[Table], absent: set[str]
    ) -> None:
        narrower = [{**a, "who": {**a["who"], **b["who"], **a["who"]}} for a, b in zip(given, more, strict=False)]
        rules = rules_of([*given, *narrower, *more], absent)
        shadowed = rules.shadowed()
        assert len(shadowed) >= len(narrower)
        for later, wider in shadowed:
            assert wider.number < later.number
            asked = {key: sorted(globs) for key, globs in later.who.items()}
            for caller in (data.draw(fitting(asked)), data.draw(claims)):
                assert number(rules, caller) != later.number

    def test_a_rule_for_everybody_shadows_all_that_come_after(self) -> None:
        rules = rules_of([{"who": {}, "profile": "all"}, {"who": {"subject": "a"}, "profile": "none"}])
        assert [(later.number, wider.number) for later, wider in rules.shadowed()] == [(2, 1)]

    @every("asked", ["ab", "a*b", "a*"])
    def test_a_glob_shadows_what_it_fits(self, asked: str) -> None:
        given = [{"who": {"subject": who}, "profile": "none"} for who in (["x", "a*"], asked)]
        assert [later.number for later, _ in rules_of(given).shadowed()] == [2]

    @every(
        ("first", "second"),
        [
            ({"subject": "a"}, {}),
            ({"subject": "a"}, {"subject": "*"}),
            ({"subject": "a"}, {"issuer": "a"}),
            ({"subject": ["a", "b"]}, {"subject": ["a", "c"]}),
            ({"subject": "a*", "issuer": "b"}, {"subject": "a"}),
        ],
    )
    def test_a_rule_that_may_hold_is_not_told_to_be_shadowed(
        self, first: dict[str, str], second: dict[str, str]
    ) -> None:
        rules = rules_of([{"who": first, "profile": "none"}, {"who": second, "profile": "all"}])
        assert rules.shadowed() == []


class TestRead:
    @every(
        ("change", "what"),
        [
            ({"profil": "all"}, r"unknown key.*did you mean profile"),
            ({"x": "y"}, r"unknown key.*\[\[access\]\]"),
            ({"who": None}, "without who"),
            ({"who": ["a"]}, "without who"),
            ({"profile": "nobodys"}, "unknown profile"),
            ({"profile": ["all"]}, "unknown profile"),
            ({"profile": "ALL"}, "unknown profile"),
            ({"may": ["matrix"]}, "unknown right.*metrics, context"),
            ({"may": "metrics"}, "unknown right"),
            ({"who": {"subjct": "a"}}, "unknown key of who.*did you mean subject"),
            ({"who": {"claim.": "a"}}, "unknown key of who"),
            ({"who": {"claim": "a"}}, "unknown key of who.*there are: issuer, subject, client"),
            ({"who": {"subject": 7}}, "can't be read"),
            ({"who": {"subject": ""}}, "can't be read"),
            ({"who": {"subject": []}}, "can't be read"),
            ({"who": {"subject": ["a", 1]}}, "can't be read"),
            ({"who": {"subject": ["a", ""]}}, "can't be read"),
        ],
    )
    def test_what_can_not_be_read_is_refused_with_its_rule_and_line(self, change: Table, what: str) -> None:
        with pytest.raises(SettingsError, match=f"(?s){what}.*") as refused:
            rules_of([{"who": {}, "profile": "all"}, {"who": {}, "profile": "all", "line": 9, **change}])
        assert "rule 2 (settings, line 9)" in str(refused.value)

    def test_rights_are_those_that_it_names(self) -> None:
        (rule,) = rules_of([{"who": {}, "profile": "all", "may": list(RIGHTS)}]).rules
        assert (rule.may, rule.where) == (frozenset(RIGHTS), "rule 1 (settings)")

    def test_groups_are_in_the_claim_that_is_named(self) -> None:
        rules = rules_of([{"who": {"group": "a"}, "profile": "all"}], groups="roles")
        assert [number(rules, {name: ["a"]}) for name in ("roles", "groups")] == [1, None]

    @every(
        ("who", "is_taken"),
        [
            ({"issuer": "b"}, True),
            ({"issuer": ["local", "b"]}, True),
            ({"issuer": "*"}, False),
            ({"issuer": "c"}, False),
            ({"issuer": ["local", "c"]}, False),
            ({"subject": "ann"}, False),
            ({}, False),
        ],
    )
    def test_of_several_issuers_each_rule_names_its_own(self, who: Table, is_taken: bool) -> None:
        given = [{"who": who, "profile": "all"}]
        assert len(rules_of(given, auth_issuer="b").rules) == 1
        if is_taken:
            assert len(rules_of(given, auth_issuer="b", auth_tokens="x").rules) == 1
        else:
            with pytest.raises(SettingsError, match=r"without its issuer.*'b', 'local'"):
                rules_of(given, auth_issuer="b", auth_tokens="x")
