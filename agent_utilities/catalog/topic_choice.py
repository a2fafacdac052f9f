"""Which words tell best what servers are about: few that together say most, and something of each server."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from agent_utilities.catalog.shared_words import ServerWords, SharedWords, Topic

_N_SHARED = 2
"""What so many tools of a server bear says something of the server."""
_N_AT_LEAST = 3
"""A server whose tools share less than so many topics is told by words of single tools too."""
_MANY_TOOLS = 64
"""Of a server with more, a word of a single tool says nothing."""
_MOST_SHARE = 0.8
"""What a larger part of all tools bears sets none of them apart."""
_FEW_TOOLS = 5
_TOGETHER = 0.75
"""Two words are one topic where they stand side by side in this share of the tools of either."""
_TAG_WEIGHT = 2
"""A tag counts as so many words: it was chosen to say what a tool is about."""
_MAX_CANDIDATES = 24
_MAX_SERVERS = 64
"""The largest: topics of more could not be told."""
_N_SERVERS_A_STEP = 64
_N_PAIRS_A_STEP = 5_000


def chosen_topics(words: SharedWords, n_topics: int) -> Generator[None, None, list[str]]:
    """Return at most so many topics: the best of each server, the largest first, before any server's second.

    Args:
        words: what was counted over the tools.
        n_topics: how many topics are wanted at most.
    """
    common = yield from _borne_by_nearly_all(words)
    if topics := (yield from _told(words, common, n_topics)):
        return topics
    tags = {tag for counts in words.servers.values() for tag in counts.tags}
    return (yield from _told(words, common & tags, n_topics))


def _told(words: SharedWords, untold: frozenset[Topic], n_topics: int) -> Generator[None, None, list[str]]:
    by_size = sorted(words.servers.items(), key=lambda server: (-server[1].n_tools, server[0]))
    ranked: list[list[str]] = []
    for _, counts in by_size[:_MAX_SERVERS]:
        pairs = yield from _shared_pairs(counts)
        topics = map(words.shown, _topics_of(counts, pairs, untold, n_topics))
        ranked.append([topic for topic in topics if topic.replace(" ", "") not in words.server_names])
        yield
        if len({topics[0] for topics in ranked if topics}) == n_topics:
            break
    chosen: dict[str, None] = {}
    for place in range(n_topics):
        chosen.update(dict.fromkeys(topics[place] for topics in ranked if place < len(topics)))
    return list(chosen)[:n_topics]


def _borne_by_nearly_all(words: SharedWords) -> Generator[None, None, frozenset[Topic]]:
    """Return the topics that set no tool apart from the others, on all servers together."""
    if words.n_tools < _FEW_TOOLS:
        return frozenset()
    n_tools: dict[Topic, int] = {}
    for n, counts in enumerate(words.servers.values(), 1):
        for topic, places in counts.tools.items():
            n_tools[topic] = n_tools.get(topic, 0) + len(places)
        if n % _N_SERVERS_A_STEP == 0:
            yield
    return frozenset(topic for topic, n in n_tools.items() if n > _MOST_SHARE * words.n_tools)


def _shared_pairs(counts: ServerWords) -> Generator[None, None, list[Topic]]:
    """Return the words that several tools of a server have side by side."""
    shared = []
    for n, (pair, tools) in enumerate(counts.pairs.items(), 1):
        if len(tools) >= _N_SHARED:
            shared.append(pair)
        if n % _N_PAIRS_A_STEP == 0:
            yield
    return sorted(shared)


def _topics_of(counts: ServerWords, pairs: Sequence[Topic], untold: frozenset[Topic], n_topics: int) -> list[Topic]:
    """Return a server's topics, the most telling first: what its tools share, and else words of single tools."""
    candidates = _candidates(counts, pairs, untold)
    weights = {topic: _TAG_WEIGHT if topic in counts.tags else 1 for topic in candidates}

    def rank(topic: Topic) -> tuple[object, ...]:
        # Of equal ones that which ends names, where English has the noun; then the longer word, which says more.
        n_letters = sum(map(len, topic))
        return (-weights[topic] * len(candidates[topic]), -counts.n_last.get(topic, 0), -n_letters, topic)

    ranked = sorted(candidates, key=rank)[:_MAX_CANDIDATES]
    shared = {topic: frozenset(candidates[topic]) for topic in ranked if len(candidates[topic]) >= _N_SHARED}
    chosen = _cover(shared, weights, counts.n_tools)
    # What tells of no further tools comes after all that does.
    chosen += [topic for topic in shared if topic not in chosen]
    told = {place for topic in chosen for place in shared[topic]}
    for topic in ranked:
        if topic not in shared and len(chosen) < _N_AT_LEAST and not told.issuperset(candidates[topic]):
            chosen.append(topic)
            told.update(candidates[topic])
    return chosen[:n_topics]


def _cover(shared: Mapping[Topic, frozenset[int]], weights: Mapping[Topic, int], n_tools: int) -> list[Topic]:
    """Return those that tell of tools of which the ones before tell nothing, by how many such tools they tell of.

    What nearly all tools of a server bear says what it is as a whole, and so takes nothing from what tells of a part.

    Args:
        shared: the tools of each topic; the order decides among equal ones.
        weights: how much a topic counts.
        n_tools: how many tools the server has.
    """
    left = dict(shared)
    chosen: list[Topic] = []
    while left:
        best = max(left, key=lambda topic: weights[topic] * len(left[topic]))
        told = left.pop(best)
        chosen.append(best)
        if len(shared[best]) > _MOST_SHARE * n_tools:
            told = frozenset()
        left = {topic: new for topic, tools in left.items() if len(new := tools - told) >= _N_SHARED}
    return chosen


def _candidates(counts: ServerWords, pairs: Sequence[Topic], untold: frozenset[Topic]) -> Mapping[Topic, Sequence[int]]:
    """Return what may be told of a server, with the tools that bear it; pairs in place of their words."""
    n_least = 1 if _N_AT_LEAST <= counts.n_tools <= _MANY_TOOLS else _N_SHARED
    can_be_told = (counts.nouns | counts.tags) - counts.own
    candidates = {topic: tools for topic in can_be_told if len(tools := counts.tools.get(topic, ())) >= n_least}
    for pair in pairs:
        halves = (pair[:1], pair[1:])
        if all(half in candidates for half in halves) and _is_one_topic(counts, pair):
            for half in halves:
                del candidates[half]
            candidates[pair] = counts.pairs[pair]
    return {
        topic: tools
        for topic, tools in candidates.items()
        if topic not in untold and not untold.issuperset((key,) for key in topic)
    }


def _is_one_topic(counts: ServerWords, pair: Topic) -> bool:
    """Whether two words are seldom without one another, and none is a tag, which says something by itself."""
    first, second = pair[:1], pair[1:]
    n_most = max(len(counts.tools[first]), len(counts.tools[second]))
    n_together = len(counts.pairs[pair])
    return n_together >= _TOGETHER * n_most and not counts.tags & {first, second}
