"""The form under which names compare, written out by hand: no test computes it by the code's own formula."""

from __future__ import annotations

from agent_utilities.selection.model import fold


def test_is_as_written_here() -> None:
    for name, folded in [
        ("Git_Push", "git_push"),
        ("stra\u00dfe", "strasse"),
        ("\ufb01le", "file"),
        ("\u0130stanbul", "i\u0307stanbul"),
        ("\uff57\uff52\uff49\uff54\uff45", "write"),
        # A compatibility form of a capital is a capital first.
        ("\u03d2", "\u03c5"),
        ("\u03f9", "\u03c3"),
        # Folding case takes these apart, and they are put together again.
        ("\u01f0", "\u01f0"),
        ("J\u030c", "\u01f0"),
        ("\u0390", "\u0390"),
        ("\u03aa\u0301", "\u0390"),
        ("\u1e96", "\u1e96"),
        ("\u1fb6", "\u1fb6"),
    ]:
        assert ascii(fold(name)) == ascii(folded)


def test_folding_again_changes_nothing() -> None:
    for name in ["\u01f0", "J\u030c", "\u0390", "\u1e96", "\u1fb6", "\u0130", "\u00df"]:
        assert ascii(fold(fold(name))) == ascii(fold(name))
