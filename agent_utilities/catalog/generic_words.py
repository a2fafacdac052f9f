"""Words that stand in the names and tags of tools of every kind, and so tell of no kind."""

from __future__ import annotations

_VERBS = """
    abort accept access acknowledge activate add adjust allow analyse analyze append apply approve ask assign attach
    authenticate authorize begin browse bulk calculate cancel change check clean clear click clone close collect
    compare complete compute configure confirm connect continue convert copy count create deactivate debug decode
    define delete deny describe destroy detach detect determine diagnose disable disconnect dismiss do drag drop
    duplicate echo edit enable encode end ensure evaluate examine exec execute exist expand explain explore extract
    fetch fill find finish generate geocode get getter give go grant handle hide hover identify init initialize
    insert inspect install invoke join kill launch load lock login logout lookup make manage mark merge modify
    monitor mutate navigate open parse pause perform pick ping play populate predict prepare press prevent print
    provide publish purge put read rebuild recommend redo refresh register reject reload remove rename render reopen
    reorder replace rerun reset resize resolve restart restore resume retrieve retry return revert revoke rotate
    save scroll searcher see select send set show shutdown simulate sort split start stop submit subscribe suggest
    suspend swap sync synchronize synthesize terminate think toggle transform translate trigger try unassign unlock
    unregister unsubscribe update upsert use validate verify visualize wait write
"""
_NOUNS_TOO = """
    archive batch build call design display download estimate exchange export filter fix format import link
    list match move order plan post preview process query record release reply report review run sample scan
    schedule search setup share store stream switch test track trade transfer upload view watch
"""
_OTHERS = """
    a about active admin after all allowed an and any api app are as async at available bad base based basic be
    before best beta between but by can config configuration content core current custom dangerous data default
    destructive detail details direct empty exact experimental extended extra false field first for from full
    general generic global good has have hello help history how id ids if ignore important in info information input
    instance instruction instructions int internal into invalid is it item items its job json key kind large last
    latest legacy local long longer main many max mcp me metadata min misc miscellaneous mode more multi multiple my
    name names nearby new next no non null object of off old on only open operation option options or other our out
    output own page parameter parameters params per previous private properties property public random range raw
    readonly recent reference related remote result results root running safe server servers service services short
    simple single size sizes small some source specific standard stat state static stats status string structured
    system tag tags target that the their them then there these they this tiny to tool tools top total true type
    types undo up usage user users util utility value values version versions via visible was we web what when where
    which who whole will with without you your
"""


def word_key(word: str) -> str:
    """Return what a word has in common with its plural, which need not be a word: `branch` for branches.

    >>> word_key("entities"), word_key("entity"), word_key("processes"), word_key("process")
    ('entity', 'entity', 'proc', 'proc')
    """
    if word == "news":
        return word
    key = word.rstrip("es")
    if len(key) < 3:
        return word.removesuffix("s")
    return f"{key[:-1]}y" if key.endswith("i") else key


VERBS = frozenset(_VERBS.split())
"""Words that say what is done, not with what."""
NOUNS_TOO = frozenset(_NOUNS_TOO.split())
"""Words that say what is done or with what: `order` in `order_items` and in `get_last_order`."""
GENERIC_KEYS = frozenset(map(word_key, [*VERBS, *_OTHERS.split()]))
"""The keys of words that never say with what something is done, or only on which terms."""
