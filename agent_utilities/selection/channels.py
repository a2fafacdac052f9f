"""The one table of selection fields, of which readers, `--help`, docs and tests are made, and what unknown keys say."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Literal, NamedTuple

from agent_utilities.selection.model import CHANNELS, WRITTEN, Channel, FieldName, nearest

_Role = Literal["tools", "tags", "allow", "deny", "bound", "not", "filler", "read", "only", "readonly", "destructive"]
"""What a word says: of what, whether to permit or to refuse, `bound` for one of both, `filler` for nothing more."""


class Meaning(NamedTuple):
    """What a key may mean.

    Args:
        field: the name of the field.
        of: the word it says it of, such as `toolsets`; a stem of the field ends with it where there is one.
    """

    field: str
    of: str


_WORDS: dict[_Role, str] = {
    "tools": "tool tools toolset toolsets component components prompt prompts resource resources template templates",
    "tags": "tag tags",
    "allow": """
        allow allowed allowing allowlist allowlisted enable enabled enabling expose exposed grant granted include
        included including keep permit permitted select selected selection show use visible white whitelist whitelisted
    """,
    "deny": """
        avoid ban banned black blacklist blacklisted block blocked blocking blocklist denied denies deny denying
        denylist disable disabled disabling disallow disallowed drop exclude excluded excluding exclusion forbid
        forbidden hidden hide ignore ignored omit omitted prohibit prohibited refuse refused reject rejected remove
        removed revoke revoked skip skipped suppress suppressed
    """,
    "bound": "filter filtered filters limit restrict restricted",
    "not": "dont except never no non not without",
    "filler": "all by csv default defaults flag id ids list lists mode name names set the these to",
    "read": "read",
    "only": "only",
    "readonly": "readonly",
    "destructive": "destructive nondestructive",
}
_ROLES: dict[str, _Role] = {word: role for role, words in _WORDS.items() for word in words.split()}
_OF = {word: word.removesuffix("s") + "s" for word in f"{_WORDS['tools']} {_WORDS['tags']}".split()}
_OF |= dict.fromkeys("prompt prompts resource resources template templates".split(), "components")
"""What a stem ends with that says the same: the plural of a word, or what a prompt is as well."""
_SINGLE = frozenset(("prompt", "resource", "template", "templates"))
"""What foreign keys have by the one, such as `?resource=` of OAuth."""
_COMMON = frozenset(
    """
    black blocking dont drop filter filtered filters grant granted hidden ignore ignored keep limit never no not
    remove removed revoke revoked select selected selection show skip skipped use visible white
    """.split()
)
"""What says nothing of bounds by itself, or of one of those: too many foreign keys are made of it."""
_ALONE = frozenset(word for word, role in _ROLES.items() if role in ("allow", "deny", "bound", "not", "only")) - _COMMON
"""What a caller would write by itself, meaning tools."""
_LISTED = frozenset(("all", "list", "lists", "names"))
"""What such a word may have beside it."""
_TOGGLES = frozenset(("enabled", "disabled"))
"""What other programs' variables say by itself of the whole of them."""

_SAYS_OF_WHAT = re.compile("tool|tag|component|prompt|resource|template|readonly|destructive")
_SPLIT = re.compile(r"[^a-z0-9]+")
_INDEX = re.compile(r"\[[^\]]*\]$")
_LONGEST_JOINED = 24
_LONG = [word for word, role in _ROLES.items() if len(word) >= 5 and role not in ("filler", "bound")]
"""Words that a slip of the pen is told from."""


def words_of(key: str) -> list[str]:
    """Return the words of a key in lower case, whatever style it was written in, without a channel's prefix."""
    plain = key if key.isascii() else unicodedata.normalize("NFKC", key)
    words = [word for word in _SPLIT.split(_INDEX.sub("", plain).lower()) if word]
    for prefix in ("x", "mcp"):
        if len(words) > 1 and words[0] == prefix:
            del words[0]
    return words


def meaning_of(key: str, channel: Channel) -> tuple[Meaning, ...] | None:
    """Return what a key's words mean; empty where they are surely somebody else's, None where they are no words."""
    if channel == "header" and key.lower().startswith("mcp-param-"):
        return ()  # the protocol's own: an argument of a tool, whatever its name
    # In a place that is ours to read an unknown word is likelier a bound than not.
    is_ours = channel != "header" or key.lower().startswith(("x-mcp-", "x_mcp_", "mcp-", "mcp_"))
    not_told = None if is_ours else ()
    words = words_of(key)
    known = [_known(word) for word in words]
    if not known or not all(known):
        return not_told
    roles = [(word, _ROLES[word]) for word in chain.from_iterable(known)]
    kinds = {role for _, role in roles}
    if kinds >= {"read", "only"} or "readonly" in kinds:
        return (Meaning("read_only", ""),)
    if "destructive" in kinds:
        return (Meaning("no_destructive", ""),)
    of = [(_OF[word], role) for word, role in roles if role in ("tools", "tags")]
    sides = _sides([role for _, role in roles])
    if not of:
        is_bound = is_ours and _says_alone(words) and not (channel == "env" and words[0] in _TOGGLES)
        return tuple(Meaning(f"{side}_tools", "tools") for side in sides) if is_bound else not_told
    if {word for word, role in roles if role != "filler"} <= _COMMON | _SINGLE:
        return ()
    if not sides and (not is_ours or len(roles) > 1):
        return ()  # such as `x-mcp-tool-name`
    name, kind = of[-1]
    return tuple(Meaning(f"{side}_{kind}", name) for side in sides or ("allow",))


def _says_alone(words: Sequence[str]) -> bool:
    """Return whether words say a bound and not what it is of, such as `hide` or `black_list`; no misspelt ones do."""
    said = {_singular(word) for word in words} - _LISTED
    return _singular("".join(words)) in _ALONE or (len(said) == 1 and said <= _ALONE)


def _singular(word: str) -> str:
    """Return the known word that one is the plural of; any other as it is."""
    return word if word in _ROLES or word[:-1] not in _ROLES or word[-1:] != "s" else word[:-1]


def _sides(roles: Sequence[_Role]) -> tuple[str, ...]:
    """Return whether words permit or refuse; both where they may do either, neither where they say nothing of it."""
    if "bound" in roles:
        return ("allow", "deny")
    if sum(role in ("deny", "not") for role in roles) % 2:
        return ("deny",)
    return ("allow",) if {"allow", "only", "deny", "not"}.intersection(roles) else ()


def _known(word: str) -> list[str]:
    """Return the known words that one is made of, or the long one that it is a slip of the pen from; none otherwise."""
    if (known := _singular(word)) in _ROLES:
        return [known]
    if len(word) <= _LONGEST_JOINED and _SAYS_OF_WHAT.search(word) and (parts := _taken_apart(word)):
        return parts
    # The first letter is rarely the wrong one.
    meant = nearest(word, [known for known in _LONG if known[0] == word[0]], _NEAR)
    return [] if meant is None else [meant]


def _taken_apart(text: str) -> list[str] | None:
    """Return the known words that one is made of, such as `disabledtools`, the longest first; None where it isn't."""
    if not text:
        return []
    for end in range(len(text), 1, -1):
        if text[:end] in _ROLES and (rest := _taken_apart(text[end:])) is not None:
            return [text[:end], *rest]
    return None


ValueKind = Literal[
    "names", "tags", "flag", "text", "count", "number", "threshold", "active", "profile", "capabilities"
]
"""How a value is read: comma-separated names or tags, a boolean, free text, a positive integer, one from 0 up; when
tools are deferred; which of them are active; the name of a profile; names of capabilities, last used at the end."""

META_KEY = "agent-utilities/selection"
"""The key of `_meta`: in a request the caller's selection, in a list's result what was decided."""

_STYLED: tuple[Channel, ...] = ("env", "cli", "query", "header")
"""Channels that spell fields each in a style of its own; all others spell them as the URL query does."""
_NEAR = 85
LONGEST_KEY = 40


def spelled(stem: str, channel: Channel) -> str:
    """Return a stem, such as `disabled_tools`, in a channel's style."""
    dashed = stem.replace("_", "-")
    return {"env": f"MCP_{stem.upper()}", "cli": f"--{dashed}", "header": f"x-mcp-{dashed}"}.get(channel, stem)


@dataclass(frozen=True)
class Field:
    """One row of the table.

    Args:
        name: the field's name in `Selection`.
        kind: how its values are read.
        stems: every name it has, in any channel; each channel knows all of them, in its style.
        preferred: the stem that docs and hints use, for channels where it is not the first. A request's `_meta` and
            files are spelled as the URL query is.
        help: one sentence for `--help` and the docs.
        channels: those that it can be given in.
        instead: what the other channels have in its place, a stem or a setting's name; empty where all have it.
    """

    name: FieldName
    kind: ValueKind
    stems: tuple[str, ...]
    help: str
    preferred: Mapping[Channel, str] = field(default_factory=dict, hash=False)
    channels: tuple[Channel, ...] = WRITTEN
    instead: str = ""

    def spellings(self, channel: Channel) -> tuple[str, ...]:
        """Return the spellings of this field in a channel, the preferred one first; none where it can't be given."""
        if channel not in self.channels:
            return ()
        first = self.preferred.get(channel if channel in _STYLED else "query", self.stems[0])
        return tuple(spelled(stem, channel) for stem in sorted(self.stems, key=lambda stem: stem != first))


FIELDS: tuple[Field, ...] = (
    Field(
        "allow_tools",
        "names",
        ("enabled_tools", "tools", "toolsets", "enabled_components"),
        "Permit only these tools (a toolset is a tool's name or a tag).",
        {"cli": "tools", "query": "tools"},
    ),
    Field(
        "deny_tools",
        "names",
        ("disabled_tools", "disabled_toolsets", "disabled_components", "exclude_tools"),
        "Deny these tools and toolsets; no other channel can lift a deny.",
    ),
    Field(
        "allow_tags",
        "tags",
        ("enabled_tags", "tags"),
        "Permit only tools that bear one of these tags.",
        {"cli": "tags", "query": "tags"},
    ),
    Field("deny_tags", "tags", ("disabled_tags",), "Deny every tool that bears one of these tags."),
    Field("read_only", "flag", ("read_only", "readonly"), "Permit only tools annotated readOnlyHint: true."),
    Field("no_destructive", "flag", ("no_destructive",), "Permit only tools that say they destroy nothing."),
    Field("query", "text", ("query", "q", "search"), "Show the permitted tools that fit these words.", {"query": "q"}),
    Field("top_k", "count", ("top_k",), "Show at most this many tools."),
    Field(
        "tool_search",
        "threshold",
        ("tool_search",),
        "Defer tools, to be found by tool_search: on, off, auto (more than 50), auto:N. The operator's off is final.",
    ),
    Field(
        "pins",
        "names",
        ("pinned_tools", "pin"),
        "Never defer these tools (a name or a tag); channels add up.",
        {"cli": "pin", "query": "pin"},
    ),
    Field(
        "active",
        "active",
        ("active",),
        "Deferred tools to show besides: the value of active that a result told.",
        channels=("query", "header", "meta"),
        instead="pinned_tools",
    ),
    Field("initial_k", "count", ("initial_k",), "Show at most this many of what answers the first query (30)."),
    Field("search_k", "count", ("search_k",), "Add at most this many with each later query (10)."),
    Field("search_turns", "number", ("search_turns",), "Add nothing after this many queries (7); 0 defers nothing."),
    Field("max_active", "number", ("max_active",), "Keep at most this many loaded tools (24); 0 for any number."),
    Field(
        "max_tools",
        "count",
        ("max_tools",),
        "List at most this many tools, the two entry tools among them; the rest is deferred.",
    ),
    Field(
        "profile",
        "profile",
        ("profile",),
        "Take the fields of this profile, [profiles.NAME] in the operator's file; none for no profile.",
    ),
    Field(
        "capabilities",
        "capabilities",
        ("capabilities",),
        "On a gateway: capabilities to have on, the last one used last; the value of capabilities that a result told.",
        channels=("query", "header", "meta"),
        instead="boot_capabilities",
    ),
)


def spellings(channel: Channel) -> Iterator[tuple[str, Field]]:
    """Yield every spelling of a channel with its field, in table order."""
    for row in FIELDS:
        for spelling in row.spellings(channel):
            yield spelling, row


def normal_key(key: str, channel: Channel) -> str:
    """Return a key as the table spells it: case counts nowhere but on the command line, nor does `-` for `_`.

    Of headers only the case: proxies drop names with `_`, so that one may mean what its sender does not say.
    """
    if channel in ("cli", "header"):
        return key if channel == "cli" else key.lower()
    return (key.upper() if channel == "env" else key.lower()).replace("-", "_")


_BY_SPELLING: dict[Channel, dict[str, Field]] = {channel: dict(spellings(channel)) for channel in CHANNELS}
_BY_STEM: dict[str, Field] = {stem: row for row in FIELDS for stem in row.stems}
_DENYING = [stem for stem, row in _BY_STEM.items() if row.name.startswith("deny")]
_NEAR_COMMON_WORDS = frozenset({"pin", "active", "search_k"})
"""Stems that foreign keys nearly spell, such as `ping`, `inactive`, `search_key`: only a plural is taken for them."""
_PERMITTING = [stem for stem in _BY_STEM if stem not in _DENYING and stem not in _NEAR_COMMON_WORDS]


def field_of(key: str, channel: Channel) -> Field | None:
    """Return the field that a key spells in a channel, or None."""
    return _BY_SPELLING[channel].get(normal_key(key, channel))


def given_elsewhere(key: str, channel: Channel) -> tuple[str, str] | None:
    """Return what is wrong with a key of a field that only other channels have, and what would do; else None."""
    own = normal_key(key, channel)
    for row in FIELDS:
        if channel not in row.channels and own in (spelled(stem, channel) for stem in row.stems):
            header, query = row.spellings("header")[0], row.spellings("query")[0]
            there = _BY_STEM.get(row.instead)
            instead = spelled(row.instead, channel) if there is None else there.spellings(channel)[0]
            hint = f"callers send {header} or ?{query}=; use {instead} here"
            return f"{row.name} is for callers to give", hint
    return None


def is_selection_header(name: str) -> bool:
    """Whether a header is to be read, be it to be refused: one of ours, or one that sounds like a bound."""
    return name.lower().startswith("x-mcp-") or near_miss(name, "header") is not None


def near_miss(key: str, channel: Channel) -> str | None:
    """Return the spelling that an unknown key probably meant, or None where it is somebody else's.

    A bound that is passed over leaves everything exposed, so readers refuse what sounds like one (law L5): another
    word for it, another channel's style, a slip of the pen. A deny is never told for an allow, nor an allow for a deny;
    where a key may mean either, both are.
    """
    return _near_miss(key, channel) if len(key) <= LONGEST_KEY else None


@lru_cache(maxsize=1024)
def _near_miss(key: str, channel: Channel) -> str | None:
    meanings = meaning_of(key, channel)
    if meanings is None:
        meanings = _misspelt("_".join(words_of(key)))
    near = [_suggestion(meaning, normal_key(key, channel), channel) for meaning in meanings]
    return " or ".join(spelling for spelling in near if spelling) or None


def _misspelt(words: str) -> tuple[Meaning, ...]:
    """Return what misspelt words may mean: one row for each polarity that they nearly spell."""
    if (stem := words.removesuffix("s")) in _NEAR_COMMON_WORDS:
        return (Meaning(_BY_STEM[stem].name, stem),)
    near = [nearest(words, stems, _NEAR) for stems in (_PERMITTING, _DENYING)]
    if not any(near) and "t" in words[:2] and words not in ("tabs", "taps"):
        from rapidfuzz.distance import OSA  # it counts letters that changed places as one slip

        near = [stem for stem in ("tags", "tools") if OSA.distance(words, stem) == 1]
    return tuple(Meaning(_BY_STEM[stem].name, stem) for stem in near if stem is not None)


def _suggestion(meaning: Meaning, own: str, channel: Channel) -> str | None:
    """Return the first spelling of a field that is another than what was written, of the object that was written of."""
    row = next(row for row in FIELDS if row.name == meaning.field)
    others = [spelling for spelling in row.spellings(channel) if spelling != own]
    of_object = [spelling for spelling in others if spelling.lower().replace("-", "_").endswith(meaning.of)]
    return next(iter(of_object or others), None)
