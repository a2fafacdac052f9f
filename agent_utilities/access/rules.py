"""Rules of access: they map the claims of a caller's token to a profile and to rights. Pure.

The first rule that fits holds, as in `pg_hba.conf`; where none does, nothing is permitted. A claim that an earlier rule
asks for and the token lacks is unknown, and then no later rule holds: a caller chooses the scopes that they ask for, so
that they could leave a claim out to fall through to a wider rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_utilities.errors import SettingsError
from agent_utilities.policy.bounds import fits
from agent_utilities.selection.model import Selection, nearest
from agent_utilities.selection.profiles import EVERYTHING, NO_PROFILE, SettingsFiles
from agent_utilities.settings import Settings

LOCAL = "local"
"""The issuer of tokens of a file. All their claims are known, so that none of them is left out."""
RIGHTS = ("metrics", "context", "page.read", "page.operate")
"""Rights that a rule may grant beside tools."""

_CLAIMS = {"issuer": "iss", "subject": "sub", "client": "client", "scope": "scope"}
"""The claim that each key of `who` reads; `group` reads the one that holds groups, `claim.NAME` the one it names."""
_KEYS = (*_CLAIMS, "group", "claim.NAME")
_HINT = 'write it as [[access]] with who = { group = "interns" } and profile = "readers" below'


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Args:
        number: its place, from 1.
        who: for each key the globs of which the claim must match one; all keys must fit, and none fits everybody.
        profile: what callers whom it fits may use: a profile's name, `all` or `none`.
        may: their rights.
        where: its number and line in its file, as people read it.
    """

    number: int
    who: Mapping[str, frozenset[str]]
    profile: str
    may: frozenset[str] = frozenset()
    where: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """The outcome of all rules for one caller.

    Args:
        rule: the rule that holds; None where none does.
        profile: what they may use: the rule's profile, `none` where none holds, `all` where there are no rules.
        reasons: a line for each rule that was evaluated, in their order: whether it holds, and why.
    """

    rule: Rule | None
    profile: str
    reasons: tuple[str, ...]

    def bounds(self, files: SettingsFiles) -> Selection:
        """Return the bounds of the profile."""
        return files.for_access(self.profile, "rule", self.rule.where if self.rule else "no rule of access")


@dataclass(frozen=True)
class Rules:
    """All rules of a settings file, in their order."""

    rules: tuple[Rule, ...] = ()
    groups: str = "groups"
    """The claim that holds groups."""
    absent: frozenset[str] = frozenset()
    """Claims that the issuer leaves out where they are empty."""

    def access(self, claims: Mapping[str, Any]) -> Access:
        """Return the rule that holds for a caller, and why.

        Args:
            claims: the verified token's, under the names of JWT; `client` is the client that it was issued to.
        """
        if not self.rules:
            return Access(None, EVERYTHING, ("there are no rules, so nothing is taken away",))
        reasons: list[str] = []
        for rule in self.rules:
            verdict, reason = self._fit(rule, claims)
            reasons.append(f"{rule.where} {reason}")
            if verdict is True:
                return Access(rule, rule.profile, tuple(reasons))
            if verdict is None:
                last = "no later rule holds: what this one asks for is unknown"
                return Access(None, NO_PROFILE, (*reasons, last))
        return Access(None, NO_PROFILE, (*reasons, "no rule fits, so nothing is permitted"))

    def shadowed(self) -> list[tuple[Rule, Rule]]:
        """Return the rules that can never hold, each with the earlier one that fits everybody whom it fits."""
        shadowed = []
        for i, later in enumerate(self.rules):
            shadowed += [(later, wider) for wider in self.rules[:i] if _covers(wider, later)][:1]
        return shadowed

    def _fit(self, rule: Rule, claims: Mapping[str, Any]) -> tuple[bool | None, str]:
        """Return whether a rule fits, None where that is unknown, and why.

        A key that does not fit settles it, whatever is unknown of the others.
        """
        unknown: str | None = None
        for key, patterns in rule.who.items():
            claim = self.groups if key == "group" else _CLAIMS.get(key) or key.removeprefix("claim.")
            values = _values(claims, claim)
            if values is None:
                if claims.get("iss") == LOCAL or claim in self.absent:
                    return False, f"does not fit: the token has no {claim!r}"
                unknown = unknown or claim
            elif not any(fits(value, patterns) for value in values):
                return False, f"does not fit: {claim!r} is not {' or '.join(map(repr, sorted(patterns)))}"
        if unknown is not None:
            return None, f"may fit or not: the token lacks {unknown!r}, which its issuer does not leave out"
        return True, f"fits, and gives the profile {rule.profile!r}"


def rules_of(settings: Settings, files: SettingsFiles, rights: Sequence[str] = RIGHTS) -> Rules:
    """Return the rules that an operator's settings have.

    Args:
        rights: what they may give.

    Raises:
        SettingsError: one can't be read, names a profile that there is not, or can't hold beside the other settings.
    """
    source = next((file.name for file in files.files if "access" in file.settings), "settings")
    rules = tuple(_rule(number, table, source, files, rights) for number, table in enumerate(settings.access, 1))
    if rules and settings.selection_policy == "override":
        hint = "leave selection_policy at narrow, or the rules out"
        raise SettingsError("rules of access beside selection_policy=override", "override", "settings", hint)
    issuers = [issuer for issuer in (settings.auth_issuer, LOCAL if settings.auth_tokens else "") if issuer]
    for rule in rules if len(issuers) > 1 else ():  # one's subject is not another's
        named = rule.who.get("issuer", frozenset())
        if not named or not named <= frozenset(issuers):
            hint = f"several issuers are trusted: add issuer = one of {', '.join(map(repr, issuers))} to its who"
            raise SettingsError("a rule of access without its issuer", sorted(named), rule.where, hint)
    absent = frozenset(filter(None, map(str.strip, settings.auth_absent.split(","))))
    return Rules(rules, settings.auth_groups, absent)


def _rule(number: int, table: Mapping[str, Any], source: str, files: SettingsFiles, rights: Sequence[str]) -> Rule:
    line = table.get("line")
    where = f"rule {number} ({source}{f', line {line}' if line else ''})"
    for key in table:
        if key not in ("who", "profile", "may", "line"):
            meant = nearest(key, ("who", "profile", "may"))
            raise SettingsError("unknown key", key, where, f"did you mean {meant}?" if meant else _HINT)
    who, profile, may = table.get("who"), table.get("profile"), table.get("may", [])
    if not isinstance(who, Mapping):
        raise SettingsError("a rule of access without who it is for", who, where, _HINT)
    if not isinstance(profile, str) or not (profile in (EVERYTHING, NO_PROFILE) or files.has(profile)):
        hint = "name a profile of your own settings file, all, or none"
        raise SettingsError("unknown profile", profile, where, hint)
    if not isinstance(may, list) or not all(right in rights for right in may):
        raise SettingsError("unknown right", may, where, f"there are: {', '.join(rights)}")
    patterns = {key: _patterns(key, value, where) for key, value in who.items()}
    return Rule(number, patterns, profile, frozenset(may), where)


def _patterns(key: str, value: object, where: str) -> frozenset[str]:
    if key not in (*_CLAIMS, "group") and not (key.startswith("claim.") and len(key) > len("claim.")):
        meant = nearest(key, _KEYS)
        hint = f"did you mean {meant}?" if meant else f"there are: {', '.join(_KEYS)}"
        raise SettingsError("unknown key of who", key, where, hint)
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(each, str) and each for each in values):
        raise SettingsError(f"{key} can't be read", value, where, "write a text, or several in a list")
    return frozenset(values)


def _values(claims: Mapping[str, Any], claim: str) -> Sequence[str] | None:
    """Return the texts of a claim; none for a shape that is neither text nor a list of texts, None where it is absent.

    An empty text counts as absent: without scopes, some issuers send one and some leave the claim out.
    """
    if claim == "client":
        value = claims["client"] if "client" in claims else claims.get("client_id") or claims.get("azp")
    elif claim == "scope":
        value = claims.get("scope", claims.get("scp"))
        value = value.split() or None if isinstance(value, str) else value
    else:
        value = claims.get(claim)
    if value is None or value == "":
        return None
    values = [value] if isinstance(value, str) else value
    return values if isinstance(values, list) and all(isinstance(each, str) for each in values) else ()


def _covers(earlier: Rule, later: Rule) -> bool:
    """Whether the earlier rule fits, or is unknown to fit, for everybody whom the later one fits."""
    return all(
        key in later.who and all(fits(pattern, patterns) for pattern in later.who[key])
        for key, patterns in earlier.who.items()
    )
