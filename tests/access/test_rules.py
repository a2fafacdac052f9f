"""Which rule holds for the claims of a token, and what of a rule can't be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_utilities.access.rules import Rule, Rules
from tests.access.test_reading_rules import refused
from tests.every import every

ALL, READERS = "all", "readers"


def rules(*whos: dict[str, str], **options: Any) -> Rules:
    """Rules of a glob for each key, the last for everybody; each gives a profile of its number."""
    made = [Rule(n, {key: frozenset({glob}) for key, glob in who.items()}, str(n)) for n, who in enumerate(whos, 1)]
    return Rules(tuple(made), **options)


def held(of: Rules, **claims: Any) -> str:
    """Return the profile of the rule that holds."""
    return of.access({"iss": "https://login.example", **claims}).profile


class TestReasons:
    """What each rule that was looked at says, in their order: `explain` prints it."""

    def test_of_a_rule_that_fits_are_those_before_it_too(self) -> None:
        found = rules({"subject": "bob"}, {"subject": "a*"}, {}).access({"sub": "ann"})
        assert found.rule is not None
        assert (found.rule.number, found.profile) == (2, "2")
        assert found.reasons == (" does not fit: 'sub' is not 'bob'", " fits, and gives the profile '2'")

    def test_of_a_rule_with_several_texts_are_all_of_them(self) -> None:
        of = Rules((Rule(1, {"subject": frozenset({"eve", "bob"})}, "all"),))
        assert of.access({"sub": "ann"}).reasons[0] == " does not fit: 'sub' is not 'bob' or 'eve'"

    def test_where_none_fits_are_that_nothing_is_permitted(self) -> None:
        found = rules({"subject": "bob"}).access({"sub": "ann"})
        assert (found.rule, found.profile) == (None, "none")
        assert found.reasons[-1] == "no rule fits, so nothing is permitted"

    def test_where_a_claim_lacks_are_which_and_that_no_later_rule_holds(self) -> None:
        found = rules({"group": "staff", "scope": "write"}, {}).access({"sub": "ann"})
        assert (found.rule, found.profile) == (None, "none")
        assert found.reasons == (
            " may fit or not: the token lacks 'groups', which its issuer does not leave out",
            "no later rule holds: what this one asks for is unknown",
        )

    @every(("claims", "options"), [({"iss": "local"}, {}), ({}, {"absent": frozenset({"groups"})})])
    def test_where_a_claim_is_known_to_be_none_are_that_the_rule_does_not_fit(
        self, claims: dict[str, str], options: dict[str, Any]
    ) -> None:
        found = rules({"group": "staff"}, **options).access(claims)
        assert found.reasons == (" does not fit: the token has no 'groups'", "no rule fits, so nothing is permitted")

    def test_where_there_are_no_rules_are_that_nothing_is_taken_away(self) -> None:
        found = Rules().access({})
        assert (found.rule, found.profile) == (None, "all")
        assert found.reasons == ("there are no rules, so nothing is taken away",)


class TestClaims:
    @every(
        ("key", "claims"),
        [
            ("issuer", {"iss": "ann"}),
            ("subject", {"sub": "ann"}),
            ("scope", {"scope": "ann"}),
            ("client", {"client": "ann"}),
            ("group", {"groups": ["staff", "ann"]}),
            ("claim.team", {"team": "ann"}),
            ("claim.claim.x", {"claim.x": "ann"}),
        ],
    )
    def test_are_those_that_a_key_of_who_reads(self, key: str, claims: dict[str, Any]) -> None:
        of = rules({key: "an*"}, {})
        assert held(of, **claims) == "1"
        assert held(of, **{claim: "somebody" for claim in claims}) == "2"

    @every("value", [7, True, {"ann": 1}, [["ann"]], ["ann", 7], []])
    def test_that_are_neither_text_nor_texts_fit_no_rule(self, value: Any) -> None:
        assert held(rules({"group": "*"}, {}), groups=value) == "2"

    @every("value", [None, ""])
    def test_that_are_empty_are_unknown(self, value: Any) -> None:
        assert held(rules({"group": "*"}, {}), groups=value) == "none"


class TestScopes:
    @every("claims", [{"scope": "read write"}, {"scope": ["read", "write"]}, {"scp": "write"}])
    def test_any_of_them_fits(self, claims: dict[str, Any]) -> None:
        assert held(rules({"scope": "write"}, {}), **claims) == "1"

    @every("claims", [{"scope": "read writer"}, {"scope": ["read"]}, {"scope": 7}, {"scope": [7]}])
    def test_others_do_not(self, claims: dict[str, Any]) -> None:
        assert held(rules({"scope": "write"}, {}), **claims) == "2"

    @every("claims", [{}, {"scope": ""}, {"scope": " "}, {"scope": None, "scp": "write"}])
    def test_that_are_none_leave_later_rules_unknown(self, claims: dict[str, Any]) -> None:
        assert held(rules({"scope": "write"}, {}), **claims) == "none"


class TestClients:
    @every("claim", ["client", "client_id", "azp"])
    def test_are_known_by_whichever_claim_names_them(self, claim: str) -> None:
        assert held(rules({"client": "edit*"}), **{claim: "editor"}) == "1"

    def test_the_one_that_a_token_was_issued_to_counts_before_others(self) -> None:
        assert held(rules({"client": "editor"}, {}), client="other", client_id="editor") == "2"


class TestLackingClaims:
    def test_hold_up_later_rules_unless_another_key_settles_it(self) -> None:
        of = rules({"group": "staff", "subject": "ann"}, {})
        assert [held(of, sub="ann"), held(of, sub="bob")] == ["none", "2"]

    def test_of_an_issuer_that_leaves_them_out_do_not(self) -> None:
        assert held(rules({"group": "staff"}, {}, absent=frozenset({"groups"}))) == "2"

    def test_of_a_token_of_the_file_do_not(self) -> None:
        assert held(rules({"group": "staff"}, {}), iss="local") == "2"

    def test_of_groups_are_those_of_the_claim_that_holds_groups(self) -> None:
        assert held(rules({"group": "staff"}, groups="roles"), roles=["staff"]) == "1"


class TestShadowed:
    def test_is_who_an_earlier_rule_fits(self) -> None:
        of = rules({"subject": "a*"}, {"subject": "ann"}, {"subject": "bob"}, {"subject": "ann", "group": "x"})
        assert [(later.number, wider.number) for later, wider in of.shadowed()] == [(2, 1), (4, 1)]

    def test_is_told_once_of_each_with_the_first_that_is_wider(self) -> None:
        of = rules({}, {"subject": "*"}, {"subject": "ann"})
        assert [(later.number, wider.number) for later, wider in of.shadowed()] == [(2, 1), (3, 1)]

    def test_is_nobody_where_the_later_rule_is_wider_or_another(self) -> None:
        assert rules({"subject": "ann"}, {"group": "ann"}, {"subject": "a*"}, {}).shadowed() == []


@every(
    ("rule", "said"),
    [
        ('profile = "all"', "a rule of access without who it is for"),
        ('who = "ann"\nprofile = "all"', "a rule of access without who it is for: 'ann'"),
        ("who = {}", "unknown profile: 'None'"),
        ('who = {}\nprofile = ["all"]', "unknown profile"),
        ('who = {}\nprofile = "all"\nmay = "metrics"', "unknown right: 'metrics'"),
        ('who = {}\nprofile = "all"\nmay = ["metrics", "all"]', "unknown right"),
        ('who = {}\nprofile = "all"\nmays = []', "unknown key: 'mays'"),
        ('who = { subjct = "ann" }\nprofile = "all"', "unknown key of who: 'subjct'"),
        ('who = { "claim." = "x" }\nprofile = "all"', "unknown key of who: 'claim.'"),
        ('who = { subject = "" }\nprofile = "all"', "subject can't be read"),
        ('who = { subject = [] }\nprofile = "all"', "subject can't be read"),
        ('who = { subject = ["ann", 7] }\nprofile = "all"', "subject can't be read"),
    ],
)
def test_what_is_no_rule_is_refused(rule: str, said: str, tmp_path: Path) -> None:
    assert said in refused(tmp_path, f"[[access]]\n{rule}\n")
