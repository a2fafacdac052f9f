"""What a gateway's upstreams say of themselves to models, joined: bounded, and each under its own heading."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_OF_ONE = 2_000
"""The most characters of one upstream's instructions."""
MOST_OF_ALL = 12_000
"""The most characters of all upstreams' together, headings aside; each is given the same share where they are many."""

_CUT = " …"
_HEADING = re.compile(r"^[ \t]{0,3}#", re.MULTILINE)
_NO_TEXT = re.compile(
    r"[^\S\n\t ]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


@dataclass(frozen=True, slots=True)
class Instructions:
    """What one upstream says of itself.

    Args:
        upstream: its name.
        prefix: what the names of its components begin with here.
        text: as it says it.
    """

    upstream: str
    prefix: str
    text: str


def joined(own: str | None, told: Sequence[Instructions]) -> str | None:
    """Return the gateway's own instructions and its upstreams', or None where nobody says anything.

    What an upstream says is text to us: it can't pose as another's by a heading, nor hide behind characters that
    nobody sees.

    Args:
        own: the gateway's.
        told: those of the upstreams that the caller may use, in the order of the config.
    """
    share = min(MOST_OF_ONE, MOST_OF_ALL // max(1, len(told)))
    parts = [own] if own else []
    for each in told:
        if text := _plain(each.text, share):
            parts.append(f"## {_plain(each.upstream, share)} (names begin with `{each.prefix}_`)\n{text}")
    return "\n\n".join(parts) or None


def _plain(text: str, most: int) -> str:
    shown = _HEADING.sub(r"\\#", _NO_TEXT.sub(" ", text[: 2 * most].replace("\r\n", "\n"))).strip()
    return shown if len(shown) <= most else shown[: most - len(_CUT)].rstrip() + _CUT
