"""What an unknown key says in plain words: a bound by another name is told from a key that is somebody else's."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Literal, NamedTuple

from agent_utilities.selection.model import Channel, FieldName

_Role = Literal["tools", "tags", "allow", "deny", "bound", "not", "filler", "read", "only", "readonly"]
"""What a word says: of what, whether to permit or to refuse, `bound` for one of both, `filler` for nothing more."""


class Meaning(NamedTuple):
    """What a key may mean.

    Args:
        field: the field.
        of: the word it says it of, such as `toolsets`; a stem of the field ends with it where there is one.
    """

    field: FieldName
    of: str


_WORDS: dict[_Role, str] = {
    "tools": "tool tools toolset toolsets component components",
    "tags": "tag tags",
    "allow": """
        allow allowed allowing allowlist allowlisted enable enabled enabling expose exposed grant granted include
        included including keep permit permitted select selected selection show use visible whitelist whitelisted
    """,
    "deny": """
        avoid ban banned blacklist blacklisted block blocked blocking blocklist denied deny denying denylist disable
        disabled disabling disallow disallowed drop exclude excluded excluding exclusion forbid forbidden hidden hide
        ignore ignored omit omitted prohibit prohibited refuse refused reject rejected remove removed revoke revoked
        skip skipped suppress suppressed
    """,
    "bound": "filter filtered filters limit restrict restricted",
    "not": "dont except never no non not without",
    "filler": "all by csv default defaults flag id ids list lists mode name names set the these to",
    "read": "read",
    "only": "only",
    "readonly": "readonly",
}
_ROLES: dict[str, _Role] = {word: role for role, words in _WORDS.items() for word in words.split()}
_OF = {word: word.removesuffix("s") + "s" for word in f"{_WORDS['tools']} {_WORDS['tags']}".split()}
"""The plural of each word that says of what: a stem ends with it."""
_ALONE = frozenset("allow allowed blocked denied deny disabled enabled exclude excluded".split())
"""What a caller would write by itself, meaning tools; of other words alone too many mean something else."""

_SAYS_OF_WHAT = re.compile("tool|tag|component|readonly")

_SPLIT = re.compile(r"[^a-z0-9]+")
_INDEX = re.compile(r"\[[^\]]*\]$")
_LONGEST_JOINED = 24
_N_FUZZY = 5
_N_VERY_FUZZY = 8


def joined_words(key: str) -> str:
    """Return the words of a key joined by `_`, whatever style it was written in, without a channel's prefix."""
    return "_".join(_words(key))


def meaning_of(key: str, channel: Channel) -> tuple[Meaning, ...] | None:
    """Return what a key's words mean; empty where they are surely somebody else's, None where they are no words."""
    words, is_ours = _words(key), _is_ours(key, channel)
    if key.lower().startswith("mcp-param-") and channel == "header":
        return ()  # the protocol's own: an argument of a tool, whatever its name
    roles = _roles(words)
    if roles is None:
        return None if is_ours else ()
    kinds = {role for _, role in roles}
    if kinds >= {"read", "only"} or "readonly" in kinds:
        return (Meaning("read_only", ""),)
    of = [(_OF[word], role) for word, role in roles if role in ("tools", "tags")]
    polarity = _polarity(roles)
    if not of:
        is_alone = is_ours and channel != "env" and len(words) == 1 and words[0] in _ALONE
        return _meanings("tools", "tools", polarity) if is_alone else None if is_ours else ()
    if polarity is None and (not is_ours or len(roles) > 1):
        return ()  # such as `x-mcp-tool-name`
    return _meanings(*of[-1], polarity)


def _meanings(of: str, kind: str, polarity: Sequence[str] | None) -> tuple[Meaning, ...]:
    fields: dict[tuple[str, str], FieldName] = {
        ("allow", "tools"): "allow_tools",
        ("deny", "tools"): "deny_tools",
        ("allow", "tags"): "allow_tags",
        ("deny", "tags"): "deny_tags",
    }
    return tuple(Meaning(fields[side, kind], of) for side in polarity or ("allow",))


def _polarity(roles: Sequence[tuple[str, _Role]]) -> tuple[str, ...] | None:
    """Return whether words permit or refuse; both where they may do either, None where they say nothing of it."""
    said = [role for _, role in roles if role in ("allow", "only", "deny", "bound", "not")]
    if not said:
        return None
    if "bound" in said:
        return ("allow", "deny")
    n_denies = sum(role in ("deny", "not") for role in said)
    return ("deny",) if n_denies % 2 else ("allow",)


def _roles(words: Sequence[str]) -> list[tuple[str, _Role]] | None:
    """Return the known word that each word is, or is meant for, and its role; None where one is no such word."""
    roles: list[tuple[str, _Role]] = []
    for word in words:
        if word in _ROLES:
            roles.append((word, _ROLES[word]))
        elif len(word) <= _LONGEST_JOINED and _SAYS_OF_WHAT.search(word) and (parts := _taken_apart(word)) is not None:
            roles += parts
        elif (known := _misspelt(word)) is not None:
            roles.append((known, _ROLES[known]))
        else:
            return None
    return roles or None


def _taken_apart(text: str) -> list[tuple[str, _Role]] | None:
    """Return the known words that one is made of, such as `disabledtools`, the longest first; None where it isn't."""
    if not text:
        return []
    for end in range(len(text), 1, -1):
        if (first := text[:end]) in _ROLES and (rest := _taken_apart(text[end:])) is not None:
            return [(first, _ROLES[first]), *rest]
    return None


def _misspelt(word: str) -> str | None:
    """Return the long word that one is a slip of the pen from; the first letter is rarely the wrong one."""
    from rapidfuzz.distance import OSA

    for known in _LONG_BY_LETTER.get(word[0], ()):
        most = 2 if len(known) >= _N_VERY_FUZZY else 1
        if abs(len(known) - len(word)) <= most and OSA.distance(word, known, score_cutoff=most) <= most:
            return known
    return None


_LONG_BY_LETTER: dict[str, list[str]] = {}
for _word, _role in _ROLES.items():
    if len(_word) >= _N_FUZZY and _role not in ("filler", "bound"):
        _LONG_BY_LETTER.setdefault(_word[0], []).append(_word)


def _words(key: str) -> list[str]:
    plain = key if key.isascii() else unicodedata.normalize("NFKC", key)
    words = [word for word in _SPLIT.split(_INDEX.sub("", plain).lower()) if word]
    for prefix in ("x", "mcp"):
        if len(words) > 1 and words[0] == prefix:
            del words[0]
    return words


def _is_ours(key: str, channel: Channel) -> bool:
    """Whether a key is in a place that is ours to read: an unknown word there is likelier a bound than not."""
    return channel != "header" or key.lower().startswith(("x-mcp-", "x_mcp_", "mcp-", "mcp_"))
