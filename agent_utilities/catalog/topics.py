"""What a caller is told of the tools that are deferred for it: how many there are, on which servers, about what."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from agent_utilities.catalog.bare_words import server_label
from agent_utilities.catalog.shared_words import SharedWords
from agent_utilities.catalog.tokens import n_tokens
from agent_utilities.catalog.topic_choice import chosen_topics

MAX_TOKENS = 120
"""What the text takes at most, whatever tools and servers are called."""

_MAX_TOPICS = 16
_MAX_NAMES = 64
"""Of more no listing has room."""
_N_TOOLS_A_STEP = 25
_SERVERS_SHARE = 0.5
"""Of the room beside the first sentence, what servers may take where there are topics too."""


@dataclass(frozen=True, slots=True)
class DeferredTool:
    """What is read of a deferred tool to tell of it.

    Args:
        name: the name that callers see.
        server: its upstream's name at a gateway; empty for a server's own tool.
        tags: its tags; its upstream's name may be among them.
        own_name: what its upstream calls it, where callers see it under another name; else empty.
    """

    name: str
    server: str
    tags: tuple[str, ...] = ()
    own_name: str = ""


def deferred_text(tools: Sequence[DeferredTool], n_deferred: int, *, search: str = "tool_search") -> str:
    """Return what a model is told of deferred tools, in at most 120 tokens: how many, on which servers, about what.

    It is the same in every process and whatever the order of the tools. It is one line, and has nothing of what
    upstreams wrote but bare words: a server's name as `server_label` gives it, and as topics one or two words of tags
    and names, such as several tools of one server share. Empty where nothing is deferred.

    10,000 tools take about 100 ms; on an event loop use `deferred_text_steps`.

    Args:
        tools: the deferred tools that this caller may use: nothing is told of any other.
        n_deferred: how many are deferred.
        search: what the tool is called that finds them.
    """
    steps = deferred_text_steps(tools, n_deferred, search=search)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            text: str = done.value
            return text


def deferred_text_steps(
    tools: Sequence[DeferredTool], n_deferred: int, *, search: str = "tool_search"
) -> Generator[None, None, str]:
    """Return what `deferred_text` does, in steps of a millisecond mostly."""
    if not n_deferred:
        return ""
    labels: dict[str, str] = {}
    n_by_label: dict[str, int] = {}
    words = SharedWords()
    for n, tool in enumerate(tools, 1):
        if tool.server not in labels:
            labels[tool.server] = server_label(tool.server)
        label = labels[tool.server]
        n_by_label[label] = n_by_label.get(label, 0) + 1
        words.add(tool.server, tool.own_name or tool.name, tool.tags)
        if n % _N_TOOLS_A_STEP == 0:
            yield
    topics = yield from chosen_topics(words, _MAX_TOPICS)
    by_size = sorted(n_by_label.items(), key=lambda server: (-server[1], server[0]))
    return _text(n_deferred, search, [f"{label} {n}" for label, n in by_size if label], topics)


def _text(n_deferred: int, search: str, servers: Sequence[str], topics: Sequence[str]) -> str:
    tools, them = ("tool is", "it") if n_deferred == 1 else ("tools are", "them")
    text = f"{n_deferred} more {tools} deferred; find {them} with {search}."
    n_left = MAX_TOKENS - n_tokens(text)
    text += _listing("Servers", servers, int(n_left * _SERVERS_SHARE) if topics else n_left, counts_rest=True)
    return text + _listing("Topics", topics, MAX_TOKENS - n_tokens(text), counts_rest=False)


def _listing(label: str, names: Sequence[str], room: int, *, counts_rest: bool) -> str:
    """Return ` Label: a, b.` with as many names as fit; empty where none does.

    Args:
        label: what the names are.
        names: the first is the most important.
        room: the tokens that it takes less than.
        counts_rest: whether it says how many names were left out.
    """
    shown: list[str] = []
    text = ""
    for name in names[:_MAX_NAMES]:
        longer = f" {label}: {', '.join([*shown, name])}"
        if counts_rest and (n_rest := len(names) - len(shown) - 1):
            longer += f" and {n_rest} {'other' if n_rest == 1 else 'others'}"
        if n_tokens(f"{longer}.") < room:
            shown.append(name)
            text = f"{longer}."
    return text
