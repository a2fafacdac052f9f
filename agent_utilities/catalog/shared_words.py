"""The words of tools' names and tags, counted by server: what a catalog is about, in its own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent_utilities.catalog.bare_words import MAX_WORD, name_words, tag_words
from agent_utilities.catalog.generic_words import GENERIC_KEYS, NOUNS_TOO, VERBS, word_key

Topic = tuple[str, ...]
"""The keys of its words, of which there are one or two; empty for words that are no topic."""

_MAX_WORDS = 12
_MAX_TAGS = 16


@dataclass(slots=True)
class ServerWords:
    """The tools of one server by the topics that they bear, each tool by its place.

    Args:
        own: what its name says: no topic, since the name is told too.
        n_tools: how many tools it has.
        tools: by topic, the tools whose names have its word or whose tags are it.
        pairs: by two words, the tools whose names have them side by side.
        nouns: the topics that stand there as words which can't be verbs: `lists`, where `list` may be one.
        tags: the topics that are some tool's tag.
        n_last: by topic, how many names have it as their last word, which mostly says what a tool is about.
    """

    own: frozenset[Topic]
    n_tools: int = 0
    tools: dict[Topic, list[int]] = field(default_factory=dict)
    pairs: dict[Topic, list[int]] = field(default_factory=dict)
    nouns: set[Topic] = field(default_factory=set)
    tags: set[Topic] = field(default_factory=set)
    n_last: dict[Topic, int] = field(default_factory=dict)


class SharedWords:
    """What is counted over tools, one after the other; nothing of it hangs on their order."""

    def __init__(self) -> None:
        self.servers: dict[str, ServerWords] = {}
        self.server_names: set[str] = set()
        """The words of each server's name, written together."""
        self.n_tools = 0
        self._topics: dict[str, Topic] = {}
        self._tags: dict[str, Topic] = {}
        self._forms: dict[str, set[str]] = {}

    def add(self, server: str, name: str, tags: Sequence[str]) -> None:
        """Count a tool.

        Args:
            server: its server's name.
            name: its name, best as the server has it.
            tags: its tags, of which the first 16 are read.
        """
        counts = self.servers.get(server)
        if counts is None:
            counts = self.servers[server] = self._of_server(server)
        place = counts.n_tools
        counts.n_tools += 1
        self.n_tools += 1
        told: set[Topic] = {()}
        self._add_name(counts, place, name, told)
        for tag in tags[:_MAX_TAGS]:
            topic = self._tag(tag)
            counts.tags.add(topic)
            _put(counts.tools, topic, place, told)

    def shown(self, topic: Topic) -> str:
        """Return a topic as it is told: in the plural where the catalog has it, which suits a list of topics."""
        *first, last = [sorted(self._forms[key], key=lambda word: (len(word), word)) for key in topic]
        return " ".join([*(forms[0] for forms in first), last[-1]])

    def _add_name(self, counts: ServerWords, place: int, name: str, told: set[Topic]) -> None:
        last: Topic = ()
        before: Topic = ()
        has_verb = False
        for word in name_words(name)[:_MAX_WORDS]:
            is_verb = word in VERBS or (word in NOUNS_TOO and not has_verb)
            topic = () if is_verb else self._topic(word)
            has_verb |= is_verb
            if not topic or topic in counts.own:
                before = ()
                continue
            _put(counts.tools, topic, place, told)
            if word not in NOUNS_TOO:
                counts.nouns.add(topic)
            if before and before != topic:
                _put(counts.pairs, before + topic, place, told)
            last = before = topic
        if last:
            counts.n_last[last] = counts.n_last.get(last, 0) + 1

    def _of_server(self, server: str) -> ServerWords:
        words = name_words(server)
        self.server_names.add("".join(words))
        return ServerWords(frozenset((word_key(word),) for word in (*words, "".join(words))))

    def _topic(self, word: str) -> Topic:
        """Return what a word of a name stands for; nothing where it is generic, a number, a letter, or very long."""
        topic = self._topics.get(word)
        if topic is None:
            key = word_key(word)
            is_topic = key not in GENERIC_KEYS and 1 < len(word) <= MAX_WORD and not any(map(str.isnumeric, word))
            topic = self._topics[word] = (key,) if is_topic else ()
            if is_topic:
                self._forms.setdefault(key, set()).add(word)
        return topic

    def _tag(self, tag: str) -> Topic:
        """Return what a tag stands for; nothing where each of its words is generic."""
        topic = self._tags.get(tag)
        if topic is None:
            words = tag_words(tag)
            is_topic = any(map(self._topic, words))
            topic = self._tags[tag] = tuple(map(word_key, words)) if is_topic else ()
            for key, word in zip(topic, words, strict=False):
                self._forms.setdefault(key, set()).add(word)
        return topic


def _put(tools: dict[Topic, list[int]], topic: Topic, place: int, told: set[Topic]) -> None:
    """Add a tool to those of a topic, once."""
    if topic not in told:
        told.add(topic)
        tools.setdefault(topic, []).append(place)
