"""What an unknown key says in plain words: a bound by another name is told from a key that is somebody else's."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import Literal, NamedTuple

from agent_utilities.selection.model import Channel, nearest

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
_NEAR = 85


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
