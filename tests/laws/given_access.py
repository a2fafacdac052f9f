"""Generated rules of access and claims, and the plain reading of what is said of them, which laws are checked against.

Rules are generated as tables of a settings file and read by the real reader, so that a law covers reading too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from agent_utilities.access import rules
from agent_utilities.access.rules import Rules
from agent_utilities.selection.profiles import SettingsFiles, read_fields
from agent_utilities.settings import Settings
from tests.laws.given import PROFILES, Spelled

Table = dict[str, Any]
Claims = dict[str, Any]

FILES = SettingsFiles((read_fields({"profiles": PROFILES["file"]}, "file.toml", "file", ()),))
GIVEN = [*PROFILES["file"], "all", "none"]
"""What a rule may name."""
KEYS = {
    "issuer": ["iss"],
    "subject": ["sub"],
    "client": ["client_id", "azp"],
    "scope": ["scope", "scp"],
    "group": ["groups"],
    "claim.dept": ["dept"],
    "claim.groups": ["groups"],
}
"""The keys of `who`, and under which names tokens have what each reads."""
WORDS = ["a", "ab", "b", "abc", "A", "local", "a b", "日本", "", " "]
GLOBS = [*WORDS[:-2], "*", "a*", "*b", "a*c", "**", "*日*", "a*b*"]

texts = st.sampled_from(WORDS)
patterns = st.one_of(st.sampled_from(GLOBS), st.lists(st.sampled_from(GLOBS), min_size=1, max_size=3))
whos = st.dictionaries(st.sampled_from(list(KEYS)), patterns, max_size=3)
tables: st.SearchStrategy[list[Table]] = st.lists(
    st.fixed_dictionaries({"who": whos, "profile": st.sampled_from(GIVEN)}), max_size=5
)
other_shapes = st.sampled_from([True, 7, 1.5, {}, {"a": "a"}, [1], ["a", 1], [["a"]], [None]])
values = st.one_of(texts, st.lists(texts, max_size=3), st.none(), other_shapes)
claims: st.SearchStrategy[Claims] = st.dictionaries(
    st.sampled_from(["iss", "sub", "azp", "client_id", "scope", "scp", "groups", "dept", "other"]), values, max_size=7
)
absences = st.sets(st.sampled_from(["groups", "scope", "dept", "sub", "client"]), max_size=3)


def rules_of(given: Sequence[Table], absent: Collection[str] = (), groups: str = "groups", **more: str) -> Rules:
    """Read rules by the real reader."""
    held = Settings(access=list(given), auth_groups=groups, auth_absent=",".join(absent), **more)
    return rules.rules_of(held, FILES)


def plain_rule(given: Sequence[Table], claims: Mapping[str, Any], absent: Collection[str] = ()) -> int | None:
    """Return the number of the rule that holds, by the words of the contract; None where nothing is permitted."""
    for number, table in enumerate(given, 1):
        fits = [_fits(key, asked, claims, absent) for key, asked in table["who"].items()]
        if False in fits:
            continue
        return None if None in fits else number
    return None


def _fits(key: str, asked: str | list[str], claims: Mapping[str, Any], absent: Collection[str]) -> bool | None:
    """Whether one key fits; None where that is unknown, as the token lacks what it reads."""
    values = _told(key, claims)
    if values is None:
        name = {"issuer": "iss", "subject": "sub", "group": "groups"}.get(key, key.removeprefix("claim."))
        return False if claims.get("iss") == "local" or name in absent else None
    globs = [asked] if isinstance(asked, str) else asked
    return any(_matches(glob, value) for glob in globs for value in values)


def _told(key: str, claims: Mapping[str, Any]) -> list[str] | None:
    """Return what a token says of a key: several texts, none where what it says is of another shape, or nothing."""
    names = KEYS[key]
    if key == "client":  # who says nothing by the first name may say it by the second
        value = next((claims[name] for name in names if claims.get(name)), None)
    else:
        value = next((claims[name] for name in names if name in claims), None)
    if value is None or value == "":  # an empty text says as little as none
        return None
    if isinstance(value, str):
        return re.findall(r"\S+", value) or None if key.endswith("scope") else [value]
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else []


def _matches(glob: str, value: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, glob.split("*"))), value, re.DOTALL) is not None


@st.composite
def fitting(draw: st.DrawFn, who: Mapping[str, str | list[str]]) -> Claims:
    """Claims that fit a rule, as far as one claim can fit two keys of it, beside others that may fit any."""
    found = {**draw(claims), "azp": None, "scp": None}
    for key, asked in who.items():
        glob = asked if isinstance(asked, str) else draw(st.sampled_from(asked))
        text = glob.replace("*", draw(st.sampled_from(["", "a", "zz"])))
        found[KEYS[key][0]] = draw(st.sampled_from([text, [text, "other"]]))
    return {name: value for name, value in found.items() if value is not None}


def profile_as_settings(name: str) -> list[Spelled]:
    """Return what a profile of the user's file comes to, as if it stood in the file itself."""
    return [Spelled("file", key, text) for key, text in PROFILES["file"][name].items()]


def in_other_orders(claims: Claims) -> Iterator[Claims]:
    """Yield the same claims, written in other orders."""
    yield dict(reversed(claims.items()))
    yield {name: value[::-1] if isinstance(value, list) else value for name, value in claims.items()}
