"""How much a message is put as people put what calls for no tool: opinions, comparisons, theory, jokes, remarks.

`is postgres better than mysql in your opinion` is as near to a database's triggers as a request to query it; only how
it is put tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from agent_utilities.ranking.talk_and_requests import REQUESTS, TALK
from agent_utilities.ranking.text import is_content_word, stem, words
from agent_utilities.ranking.unanswerable import UNANSWERABLE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PATTERNS: tuple[str, ...] = (
    "Explain how this works in theory.",
    "Explain the concept of this in simple words.",
    "Explain what this is.",
    "What is this, in general?",
    "What does this term mean?",
    "Tell me about the history of this.",
    "Describe how this came about.",
    "Who invented this?",
    "Why is it called that?",
    "Why do people like this so much?",
    "What do you think about this?",
    "What is your opinion on this?",
    "Is this better than that?",
    "Which of the two is better?",
    "What are the pros and cons of this?",
    "What are the advantages and disadvantages of this?",
    "What is the difference between this and that?",
    "How does this compare to that?",
    "Should I learn this or that?",
    "Is this worth learning?",
    "Tell me a joke about this.",
    "Tell me a fun fact about this.",
    "Write a poem about this.",
    "Write a story about this.",
    "I love this.",
    "I hate this.",
    "I really like the new design.",
    "This is a mess.",
    "I am tired of this.",
    "I was just thinking about this.",
    "I don't like that.",
    "I disagree with that.",
    "That sounds good.",
    "Let's talk about something else.",
    "What is your favourite?",
    "Do you know what this is?",
    "Have you heard of this?",
    "Is it true that this is dead?",
    "How do companies make money with this?",
    "What is the future of this?",
    "Who uses this nowadays?",
    "When was this released?",
    "Give me an introduction to this topic.",
    "Teach me the basics of this.",
    "What should I know about this before an interview?",
    "Summarise this idea in one sentence.",
    "Brainstorm names for this.",
    "Come up with a slogan for this.",
)
STOPWORD_WEIGHT = 0.25
PAIR_WEIGHT = 0.5
"""Of two words beside each other: `better than` says more than `better`."""
COVERAGE_POWER = 0.3
_N_CHARACTERS = 8_000
_ALL_TALK = (*UNANSWERABLE, *PATTERNS, *TALK)


@dataclass(frozen=True, eq=False)
class GeneralTalk:
    """The words of general talk, and how rare each is among requests.

    Args:
        n_patterns: how many such messages there are.
        idf: of each term that triggers or requests have, 0 to 1; any other has 1.
        owners: of each term, the messages that have it.
    """

    n_patterns: int
    idf: Mapping[str, float]
    owners: Mapping[str, NDArray[np.intp]]

    @classmethod
    def of(cls, triggers: Iterable[str]) -> GeneralTalk:
        """Return it beside triggers: how they and requests are put tells nothing."""
        n_having: dict[str, int] = {}
        n_triggers = 0
        for trigger in (*triggers, *REQUESTS):
            n_triggers += 1
            for term in _counts(trigger):
                n_having[term] = n_having.get(term, 0) + 1
        most = log(1 + (n_triggers + 0.5) / 0.5)
        return cls(
            n_patterns=len(_ALL_TALK),
            idf={term: log(1 + (n_triggers - n + 0.5) / (n + 0.5)) / most for term, n in n_having.items()},
            owners=_owners_by_term(),
        )

    def score(self, text: str) -> float:
        """Return how much a text shares with the most alike of such messages; 0 for nothing."""
        import numpy as np

        rarities = {term: n * self.idf.get(term, 1.0) for term, n in _counts(text[:_N_CHARACTERS]).items()}
        shared = np.zeros(self.n_patterns)
        for term, rarity in rarities.items():
            if (having := self.owners.get(term)) is not None:
                shared[having] += rarity
        total = sum(rarities.values())
        return float(shared.max()) / total**COVERAGE_POWER if total > 0 else 0.0


@cache
def _owners_by_term() -> Mapping[str, NDArray[np.intp]]:
    import numpy as np

    owners: dict[str, list[int]] = {}
    for owner, pattern in enumerate(_ALL_TALK):
        for term in _counts(pattern):
            owners.setdefault(term, []).append(owner)
    return {term: np.array(having, dtype=np.intp) for term, having in owners.items()}


def _counts(text: str) -> dict[str, float]:
    """Return how often a text has each stem, and each two beside each other."""
    counts: dict[str, float] = {}
    stems = []
    for word in words(text):
        stemmed = stem(word)
        stems.append(stemmed)
        counts[stemmed] = counts.get(stemmed, 0.0) + (1 if is_content_word(word) else STOPWORD_WEIGHT)
    for first, second in pairwise(stems):
        pair = f"{first} {second}"
        counts[pair] = counts.get(pair, 0.0) + PAIR_WEIGHT
    return counts
