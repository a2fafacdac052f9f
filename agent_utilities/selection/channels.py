"""The table of selection fields, from which readers, `--help` and docs are made, and what a misspelt key means."""

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
"""What a word in a key means: an object, permit, deny, `bound` for either, `filler` for nothing."""


class Meaning(NamedTuple):
    """What a key may mean: a field, and the object that the key names, such as `toolsets`."""

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
"""The end of a stem that names the same object: a word's plural, or `components`."""
_SINGLE = frozenset(("prompt", "resource", "template", "templates"))
"""Objects that other programs' keys name too, such as `?resource=` of OAuth."""
_COMMON = frozenset(
    """
    black blocking dont drop filter filtered filters grant granted hidden ignore ignored keep limit never no not
    remove removed revoke revoked select selected selection show skip skipped use visible white
    """.split()
)
"""Words that by themselves, or with a `_SINGLE`, are no bound: too many keys of other programs have them."""
_ALONE = frozenset(word for word, role in _ROLES.items() if role in ("allow", "deny", "bound", "not", "only")) - _COMMON
"""Words that mean a bound on tools without naming an object."""
_LISTED = frozenset(("all", "list", "lists", "names"))
"""Words that may stand beside one of `_ALONE`."""
_TOGGLES = frozenset(("enabled", "disabled"))
"""Words by which other programs' environment variables switch the whole program on or off."""

_SAYS_OF_WHAT = re.compile("tool|tag|component|prompt|resource|template|readonly|destructive")
_SPLIT = re.compile(r"[^a-z0-9]+")
_INDEX = re.compile(r"\[[^\]]*\]$")
_LONGEST_JOINED = 24
_LONG = [word for word, role in _ROLES.items() if len(word) >= 5 and role not in ("filler", "bound")]
"""Words that a misspelt word is compared with."""


def words_of(key: str) -> list[str]:
    """Split a key of any style into words in lower case, without a channel's prefix."""
    plain = key if key.isascii() else unicodedata.normalize("NFKC", key)
    words = [word for word in _SPLIT.split(_INDEX.sub("", plain).lower()) if word]
    for prefix in ("x", "mcp"):
        if len(words) > 1 and words[0] == prefix:
            del words[0]
    return words


def meaning_of(key: str, channel: Channel) -> tuple[Meaning, ...] | None:
    """Return what a key may mean; empty where it is another program's for certain, None where that is not known."""
    if channel == "header" and key.lower().startswith("mcp-param-"):
        return ()  # the protocol's own: an argument of a tool, whatever its name
    # Under a prefix of ours an unknown word is probably a bound.
    is_ours = channel != "header" or key.lower().startswith(("x-mcp-", "x_mcp_", "mcp-", "mcp_"))
    unclear = None if is_ours else ()
    words = words_of(key)
    known = [_known(word) for word in words]
    if not known or not all(known):
        return unclear
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
        return tuple(Meaning(f"{side}_tools", "tools") for side in sides) if is_bound else unclear
    if {word for word, role in roles if role != "filler"} <= _COMMON | _SINGLE:
        return ()
    if not sides and (not is_ours or len(roles) > 1):
        return ()  # such as `x-mcp-tool-name`
    name, kind = of[-1]
    return tuple(Meaning(f"{side}_{kind}", name) for side in sides or ("allow",))


def _says_alone(words: Sequence[str]) -> bool:
    """Whether words are a bound without an object, such as `hide` or `black_list`; misspelt ones never are."""
    bounds = {_singular(word) for word in words} - _LISTED
    return _singular("".join(words)) in _ALONE or (len(bounds) == 1 and bounds <= _ALONE)


def _singular(word: str) -> str:
    """Return the singular of a known word's plural; any other word as it is."""
    return word if word in _ROLES or word[:-1] not in _ROLES or word[-1:] != "s" else word[:-1]


def _sides(roles: Sequence[_Role]) -> tuple[str, ...]:
    """Return whether words allow or deny: both where they may do either, neither where they do nothing."""
    if "bound" in roles:
        return ("allow", "deny")
    if sum(role in ("deny", "not") for role in roles) % 2:
        return ("deny",)
    return ("allow",) if {"allow", "only", "deny", "not"}.intersection(roles) else ()


def _known(word: str) -> list[str]:
    """Return the known words that a word is made of, or the long one that it misspells; none otherwise."""
    if (known := _singular(word)) in _ROLES:
        return [known]
    if len(word) <= _LONGEST_JOINED and _SAYS_OF_WHAT.search(word) and (parts := _taken_apart(word)):
        return parts
    # The first letter is rarely the wrong one.
    meant = nearest(word, [known for known in _LONG if known[0] == word[0]], _NEAR)
    return [] if meant is None else [meant]


def _taken_apart(text: str) -> list[str] | None:
    """Split joined words such as `disabledtools` into known ones; None where a part is unknown."""
    if not text:
        return []
    for end in range(len(text), 1, -1):
        if text[:end] in _ROLES and (rest := _taken_apart(text[end:])) is not None:
            return [text[:end], *rest]
    return None


ValueKind = Literal[
    "names", "tags", "flag", "text", "count", "number", "threshold", "active", "profile", "capabilities", "budget"
]
"""How a value is parsed: see `_KINDS` in `parse.py`."""

META_KEY = "agent-utilities/selection"
"""The key of `_meta`: in a request the caller's selection, in a list's result the decision."""

_STYLED: tuple[Channel, ...] = ("env", "cli", "query", "header")
"""Channels that have a spelling of their own; all others spell fields as the URL query does."""
_NEAR = 85
LONGEST_KEY = 40


def spelled(stem: str, channel: Channel) -> str:
    """Spell a stem, such as `disabled_tools`, in a channel's style."""
    dashed = stem.replace("_", "-")
    return {"env": f"MCP_{stem.upper()}", "cli": f"--{dashed}", "header": f"x-mcp-{dashed}"}.get(channel, stem)


@dataclass(frozen=True)
class Field:
    """One row of the table.

    Args:
        stems: every name that it has; each channel knows all of them, in its style.
        preferred: the stem that docs and hints use, for channels where it is not the first.
        help: one sentence for `--help` and the docs.
        channels: those that may set it.
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
        """Return the spellings of this field in a channel, the preferred one first; none where it can't be set."""
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
        "result_tokens",
        "budget",
        ("result_tokens",),
        "Shorten results over N tokens; auto, off.",
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
    """Normalize a key: case counts on the command line alone, and so does `-` for `_`.

    In headers `_` is kept: proxies drop names with it, so such a header can't be relied on.
    """
    if channel in ("cli", "header"):
        return key if channel == "cli" else key.lower()
    return (key.upper() if channel == "env" else key.lower()).replace("-", "_")


_BY_SPELLING: dict[Channel, dict[str, Field]] = {channel: dict(spellings(channel)) for channel in CHANNELS}
_BY_STEM: dict[str, Field] = {stem: row for row in FIELDS for stem in row.stems}
_DENYING = [stem for stem, row in _BY_STEM.items() if row.name.startswith("deny")]
_NEAR_COMMON_WORDS = frozenset({"pin", "active", "search_k"})
"""Stems that other programs' keys resemble (`ping`, `inactive`, `search_key`): only a plural is taken for one."""
_PERMITTING = [stem for stem in _BY_STEM if stem not in _DENYING and stem not in _NEAR_COMMON_WORDS]


def field_of(key: str, channel: Channel) -> Field | None:
    """Return the field that a key spells in a channel, or None."""
    return _BY_SPELLING[channel].get(normal_key(key, channel))


def given_elsewhere(key: str, channel: Channel) -> tuple[str, str] | None:
    """Return the error and the hint for a field that only other channels may set; None for any other key."""
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
    """Whether the readers look at a header: one of ours, or one that resembles a bound and is refused."""
    return name.lower().startswith("x-mcp-") or near_miss(name, "header") is not None


def near_miss(key: str, channel: Channel) -> str | None:
    """Return the spelling that an unknown key probably meant, or None where it is another program's.

    A bound that is ignored leaves everything exposed, so readers refuse what resembles one (law L5): a synonym,
    another channel's style, a misspelling. A deny is never suggested for an allow, nor an allow for a deny; for a key
    that may mean either, both are.
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
    """Return what misspelt words may mean: at most one allow and one deny."""
    if (stem := words.removesuffix("s")) in _NEAR_COMMON_WORDS:
        return (Meaning(_BY_STEM[stem].name, stem),)
    near = [nearest(words, stems, _NEAR) for stems in (_PERMITTING, _DENYING)]
    if not any(near) and "t" in words[:2] and words not in ("tabs", "taps"):
        from rapidfuzz.distance import OSA  # it counts letters that changed places as one slip

        near = [stem for stem in ("tags", "tools") if OSA.distance(words, stem) == 1]
    return tuple(Meaning(_BY_STEM[stem].name, stem) for stem in near if stem is not None)


def _suggestion(meaning: Meaning, own: str, channel: Channel) -> str | None:
    """Return a field's first spelling that differs from the key, if possible with the object that the key names."""
    row = next(row for row in FIELDS if row.name == meaning.field)
    others = [spelling for spelling in row.spellings(channel) if spelling != own]
    of_object = [spelling for spelling in others if spelling.lower().replace("-", "_").endswith(meaning.of)]
    return next(iter(of_object or others), None)
