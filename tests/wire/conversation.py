"""One conversation of nine turns that moves from topic to topic, on three wires: what is listed after each step.

    python -m tests.wire.conversation

The words of the user come with his host's requests: as a header over HTTP, in `_meta` over stdio. In the stateless era
the host brings `active` back with each request, as the last result told it, and asks two replicas in turn.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

from agent_utilities.catalog.context import n_tokens
from agent_utilities.selection.channels import META_KEY, spelled
from tests.wire.processes import Launch, served
from tests.wire.wires import Access, Caller, LegacyCaller, ModernCaller, stdio_caller

Wire = Literal["stdio", "session", "stateless"]
WIRES: tuple[Wire, ...] = ("stdio", "session", "stateless")
Given = Mapping[str, str]
"""What a request selects, by field."""

INITIAL_K, SEARCH_K, TURNS, MAX_ACTIVE = 5, 2, 7, 4
ENTRY = ["tool_search", "call_tool"]

LAUNCH = Launch(
    env=(
        ("MCP_GRAPH", "embedded"),
        ("MCP_GRAPH_DEADLINE_MS", "60000"),  # a busy machine changes nothing
        ("MCP_TOOL_SEARCH", "on"),
        ("MCP_INITIAL_K", str(INITIAL_K)),
        ("MCP_SEARCH_K", str(SEARCH_K)),
        ("MCP_SEARCH_TURNS", str(TURNS)),
        ("MCP_MAX_ACTIVE", str(MAX_ACTIVE)),
    ),
    script="topics_server.py",
)


@dataclass(frozen=True)
class Step:
    """One thing that happens in a conversation.

    Args:
        kind: the user says words; the model searches, or calls a tool.
        text: the words, the query, or the tool's name.
    """

    kind: Literal["words", "search", "call"]
    text: str


SCRIPT = (
    Step("words", "which commits changed the repository last week"),
    Step("search", "send a letter by mail"),
    Step("words", "merge my branch"),
    Step("call", "sunrise"),
    Step("words", "find a free slot for a meeting"),
    Step("words", "invite people to the meeting and book a room"),
    Step("search", "weather forecast of a place"),
    Step("words", "will there be a storm with rain"),
    Step("words", "play a song of that artist"),
    Step("words", "create a playlist of songs"),
    Step("words", "find flights between two airports"),
    Step("search", "select:rent_car"),
    Step("words", "book a hotel"),
)


@dataclass(frozen=True)
class Shown:
    """What a list shows after a step.

    Args:
        step: what happened.
        names: of all tools in the list.
        tokens: what the list costs.
        active: the value of `active` that it tells.
        evicted: what the step's own result said went out.
        answer: the texts of its own result.
        other: the list of another replica that is asked the same; None where there is no other.
    """

    step: Step
    names: Sequence[str]
    tokens: int
    active: str
    evicted: Sequence[str] = ()
    answer: str = ""
    other: Sequence[str] | None = None


@dataclass
class Host:
    """What an agent's host does on one wire.

    Args:
        wire: which.
        callers: a way to ask under a selection, one for each replica.
    """

    wire: Wire
    callers: Sequence[Asking]
    words: str = ""
    active: str = ""
    shown: list[Shown] = field(default_factory=list)

    def play(self, script: Sequence[Step]) -> list[Shown]:
        """Return what is listed after each step."""
        for step in script:
            self.take(step)
        return self.shown

    def take(self, step: Step) -> None:
        """Do one thing, and list."""
        evicted: Sequence[str] = ()
        answer = ""
        if step.kind == "words":
            self.words = step.text
        else:
            result = self._ask("tools/call", _params(step))
            answer = "".join(block.get("text", "") for block in result["content"])
            evicted = (result.get("structuredContent") or {}).get("evicted", ())
            self._keep(result)
        before = self._given()
        listed = self._ask("tools/list")
        names = [tool["name"] for tool in listed["tools"]]
        other = None
        if len(self.callers) > 1:
            other = [tool["name"] for tool in self.callers[1].ask("tools/list", {}, before)["tools"]]
        self._keep(listed)
        self.shown.append(
            Shown(step, names, sum(map(n_tokens, listed["tools"])), self._told(listed), evicted, answer, other)
        )

    def _given(self) -> Given:
        given = {"query": self.words, "active": self.active if self.wire == "stateless" else ""}
        return {key: value for key, value in given.items() if value}

    def _ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return self.callers[0].ask(method, params or {}, self._given())

    def _keep(self, result: Mapping[str, Any]) -> None:
        self.active = self._told(result) or self.active

    @staticmethod
    def _told(result: Mapping[str, Any]) -> str:
        value: str = ((result.get("_meta") or {}).get(META_KEY) or {}).get("active", "")
        return value


def _params(step: Step) -> dict[str, Any]:
    if step.kind == "search":
        return {"name": "tool_search", "arguments": {"query": step.text, "max_results": 2}}
    return {"name": step.text, "arguments": {"subject": "here"}}


class Asking:
    """Asks a server under a selection that differs from request to request.

    Args:
        wire: how.
        access: the server, over HTTP; None over stdio.
        stdio: the server over stdio.
    """

    def __init__(self, wire: Wire, access: Access | None = None, stdio: Caller | None = None) -> None:
        self._wire, self._access, self._stdio = wire, access, stdio
        self._session: str | None = None

    def fresh(self) -> Asking:
        """Return another client of the same server, over HTTP."""
        return Asking(self._wire, self._access)

    def ask(self, method: str, params: Mapping[str, Any], given: Given) -> dict[str, Any]:
        """Return the result of a request."""
        if self._stdio is not None:
            meta = {"_meta": {META_KEY: dict(given)}} if given else {}
            return self._stdio.ask(method, {**params, **meta}).result
        assert self._access is not None
        headers = [(spelled(key, "header"), value) for key, value in given.items()]
        if self._wire == "stateless":
            return ModernCaller(self._access.http, "", headers).ask(method, dict(params)).result
        caller = LegacyCaller(self._access.http, "", headers, self._session)
        self._session = caller.session
        return caller.ask(method, dict(params)).result


@contextmanager
def asking(wire: Wire, n_replicas: int = 1, launch: Launch = LAUNCH) -> Iterator[list[Asking]]:
    """Serve processes of the server, and return a way to ask each on a wire, once it can rank its tools."""
    with ExitStack() as stack:
        callers = []
        for _ in range(n_replicas):
            home = stack.enter_context(tempfile.TemporaryDirectory(prefix="conversation-"))
            own = replace(launch, env=(*launch.env, ("XDG_CACHE_HOME", home)))
            if wire == "stdio":
                callers.append(Asking(wire, stdio=stack.enter_context(stdio_caller(own))))
            else:
                access = Access(stack.enter_context(served(own)).url)
                stack.callback(access.close)
                callers.append(Asking(wire, access))
        for caller in callers:
            _until_ranked(caller)
        yield callers


def _until_ranked(caller: Asking) -> None:
    """Return once a server's graph and ranker answer; what they are asked for that activates nothing."""
    caller.ask("tools/call", {"name": "tool_search", "arguments": {"query": "zzyzx"}}, {})  # waits for the ranker
    probe = {"query": "commits", "tool_search": "off"}
    while caller.ask("tools/list", {}, probe)["_meta"][META_KEY]["status"] != "fresh":
        pass


def conversation(wire: Wire) -> list[Shown]:
    """Return what is listed after each step of the script on a wire; of two replicas where it is stateless."""
    with asking(wire, 2 if wire == "stateless" else 1) as callers:
        return Host(wire, callers).play(SCRIPT)


def table(wire: Wire, shown: Sequence[Shown]) -> Table:
    """Return it as a table."""
    made = Table(title=f"{wire}: what is listed after each step", title_justify="left", header_style="bold")
    for heading in ("turn", "what happens", "listed", "tokens", "new in the list", "gone"):
        made.add_column(heading, justify="right" if heading in ("turn", "listed", "tokens") else "left")
    before: Sequence[str] = ()
    n_turns = 0
    for each in shown:
        n_turns += each.step.kind == "words"
        new = ", ".join(name for name in each.names if name not in before)
        gone = ", ".join(name for name in before if name not in each.names)
        turn = str(n_turns) if each.step.kind == "words" else ""
        what = each.step.text if each.step.kind == "words" else f"{each.step.kind}: {each.step.text}"
        made.add_row(turn, what, str(len(each.names)), str(each.tokens), new, gone)
        before = each.names
    return made


def main() -> None:
    """Print the conversation on each wire."""
    console = Console(width=180)
    for wire in WIRES:
        shown = conversation(wire)
        console.print(table(wire, shown))
        console.print(f"active at the end: {shown[-1].active}\n", highlight=False)


if __name__ == "__main__":
    main()
