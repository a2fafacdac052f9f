"""Many exchanges with servers, directly and through one gateway, in both eras of callers; and what of them differs.

python -m tests.differential.compare SEED ...       make these exchanges, and print what differs
python -m tests.differential.compare lists SEED     compare the lists of a seed
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from tests.differential.plays import Exchange, exchange
from tests.differential.raw import (
    ROOT,
    UPSTREAMS,
    Client,
    HttpClient,
    Message,
    Told,
    Upstream,
    http_server,
    stdio_client,
)
from tests.differential.reasons import NAMESPACE, REASONS, Case, uri_here
from tests.gateway.upstreams.gateway_process import Gateway, gateway
from tests.wire.wires import LEGACY, MODERN

ERAS = (LEGACY, MODERN)
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
_N_CLIENTS = 6
"""Connections to the gateway in each era; as many requests are under way at once."""
_CALL_S = 60
N_LISTED = 200
"""How many components of each kind each server lists, beside those that play."""


@dataclass(frozen=True)
class Difference:
    """What no reason explains."""

    seed: int | str
    upstream: str
    caller: str
    expected: str
    got: str

    def __str__(self) -> str:
        where = first_difference(self.expected, self.got)
        return f"seed {self.seed}, {self.upstream} for a caller of {self.caller}, {where}"


def first_difference(expected: str, got: str) -> str:
    """Return where two texts begin to differ, with what stands there."""
    at = next((n for n, (a, b) in enumerate(zip(expected, got, strict=False)) if a != b), min(len(expected), len(got)))
    start = max(0, at - 60)
    shown = (text[start : start + 240] for text in (expected, got))
    return "from character {}:\n  expected ...{!r}\n  got      ...{!r}".format(start, *shown)


@dataclass
class Found:
    """What comparing came to.

    Args:
        needed: the reasons without which something would have differed.
        differences: what no reason explains.
    """

    needed: set[str] = field(default_factory=set)
    differences: list[Difference] = field(default_factory=list)
    n_compared: int = 0

    def compare(self, seed: int | str, case: Case, own: Message) -> None:
        """Compare what came through the gateway with a server's own, as the reasons have it."""
        self.n_compared += 1
        for name, reason in REASONS.items():
            before = _text(own) if name not in self.needed else None
            reason.made(own, case)
            if before is not None and _text(own) != before:
                self.needed.add(name)
        expected, got = _text(own), _text(case.got)
        if expected != got:
            self.differences.append(Difference(seed, case.upstream.name, case.caller, expected, got))


def _text(value: Any) -> str:
    """Return JSON as a text that tells 1 from 1.0 and from true."""
    return json.dumps(value, sort_keys=True)


def _said(told: Told) -> Message:
    return json.loads(json.dumps({"answer": told.answer, "notices": told.notices}))  # type: ignore[no-any-return]


class World:
    """The servers, and the gateway before them."""

    def __init__(self, gateway: Gateway, direct: dict[str, Client], seed: int) -> None:
        self.gateway, self.direct, self._seed = gateway, direct, seed

    @contextmanager
    def callers(self, era: str, n_callers: int = _N_CLIENTS) -> Iterator[SimpleQueue[Client]]:
        """Yield clients of the gateway, each of which is to be put back."""
        free: SimpleQueue[Client] = SimpleQueue()
        clients = [HttpClient(self.gateway.process.url, era) for _ in range(n_callers)]
        for client in clients:
            if era == LEGACY:
                client.ask("logging/setLevel", {"level": "debug"})
            free.put(client)
        yield free
        for client in clients:
            client.close()

    def exchanges(self, seeds: Iterable[int], found: Found) -> None:
        """Make exchanges and compare them.

        Those in which a server over stdio sends log messages are made last, one at a time: it does not say whose they
        are, so that they are dropped where they could be of another session's.
        """
        asked = [(UPSTREAMS[seed % len(UPSTREAMS)], seed) for seed in seeds]
        made = [(upstream, exchange(seed, upstream.scheme)) for upstream, seed in asked]
        of_each = {upstream: [each for whose, each in made if whose is upstream] for upstream in UPSTREAMS}
        quiet = {name: [x for x in each if not x.play(name.era).is_loud] for name, each in of_each.items()}
        loud = {name: [x for x in each if x.play(name.era).is_loud] for name, each in of_each.items()}
        with ThreadPoolExecutor(len(ERAS) * _N_CLIENTS) as pool, ExitStack() as stack:
            callers = {era: stack.enter_context(self.callers(era)) for era in ERAS}
            own = dict(kv for part in pool.map(self._own, of_each.items()) for kv in part.items())

            def through(given: tuple[Upstream, Exchange, str]) -> None:
                upstream, each, era = given
                client = callers[era].get()
                try:
                    told = client.ask(each.method, here(each, upstream))
                finally:
                    callers[era].put(client)
                found.compare(each.seed, Case(upstream, era, each.method, _said(told)), _said(own[each.seed]))

            def one_by_one(upstream: Upstream) -> None:
                for each in loud[upstream]:
                    for era in ERAS:
                        through((upstream, each, era))

            at_once = [(upstream, each, era) for upstream, some in quiet.items() for each in some for era in ERAS]
            # Each is done with before the next begins: a pool takes up whatever it is given, as soon as it has room.
            list(pool.map(through, sorted(at_once, key=lambda x: x[1].seed)))
            list(pool.map(one_by_one, UPSTREAMS))

    def _own(self, given: tuple[Upstream, Sequence[Exchange]]) -> dict[int, Told]:
        upstream, exchanges = given
        return {each.seed: self.direct[upstream.name].ask(each.method, each.params) for each in exchanges}

    def lists(self, found: Found) -> None:
        """Compare all that is listed, each item for itself."""
        for era in ERAS:
            with self.callers(era, 1) as free:
                client = free.get()
                for method, key in LISTS.items():
                    try:
                        shown = {_called(item, key): item for item in listed(client, method, key)}
                    except RefusedError as refused:
                        found.differences.append(Difference(f"lists {self._seed}", "all", era, method, str(refused)))
                        continue
                    for upstream in UPSTREAMS:
                        self._list_of(upstream, era, method, shown, found)

    def _list_of(self, upstream: Upstream, era: str, method: str, shown: Mapping[Any, Message], found: Found) -> None:
        key, before = LISTS[method], set[str]()
        for item in listed(self.direct[upstream.name], method, key):
            # Of several with one name there is the first alone to compare with.
            is_again = (name := json.dumps(_called(item, key))) in before
            before.add(name)
            got: Message = {"answer": None if is_again else shown.get(_here(item, key, upstream)), "notices": []}
            case = Case(upstream, era, method, got, is_again)
            found.compare(f"lists {self._seed}", case, {"answer": item, "notices": []})


class RefusedError(Exception):
    """A list was answered with an error."""


def _called(item: Message, key: str) -> Any:
    return item["uri" if key == "resources" else "uriTemplate" if key == "resourceTemplates" else "name"]


def _here(item: Message, key: str, upstream: Upstream) -> Any:
    called = _called(item, key)
    return NAMESPACE.namespaced(upstream.name, called) if key in ("tools", "prompts") else uri_here(called, upstream)


def listed(client: Client, method: str, key: str) -> list[Message]:
    """Return all of a list, page by page.

    Raises:
        RefusedError: it is answered with an error.
    """
    items: list[Message] = []
    params: Message = {}
    while True:
        answer = client.ask(method, params).answer
        if answer is None or "result" not in answer:
            raise RefusedError(json.dumps(answer))
        result = answer["result"]
        items += result[key]
        if (cursor := result.get("nextCursor")) is None:
            return items
        params = {"cursor": cursor}


def here(each: Exchange, upstream: Upstream) -> Message:
    """Return what the gateway is asked in a server's place."""
    params = each.params
    match each.method:
        case "resources/read":
            params["uri"] = uri_here(params["uri"], upstream)
        case "completion/complete":
            params["ref"]["name"] = NAMESPACE.namespaced(upstream.name, params["ref"]["name"])
        case _:
            params["name"] = NAMESPACE.namespaced(upstream.name, params["name"])
    return params


def _lists_all(gateway: Gateway) -> bool:
    """Whether a list has tools of every server: `/ready` counts what one listed a moment before lists have it."""
    if not all(each["tools"] for each in gateway.ready()["upstreams"].values()):
        return False
    with closing(HttpClient(gateway.process.url, LEGACY)) as client:
        names = [tool["name"] for tool in listed(client, "tools/list", "tools")]
    return all(any(name.startswith(f"{each.name}_") for name in names) for each in UPSTREAMS)


@contextmanager
def world(folder: Path, seed: int, n_listed: int) -> Iterator[World]:
    """Start the servers and a gateway before them for the length of a block."""
    with ExitStack() as stack:
        servers: dict[str, Message] = {}
        direct: dict[str, Client] = {}
        for upstream in UPSTREAMS:
            if upstream.transport == "stdio":
                program, *arguments = upstream.command(seed, n_listed)
                entry: Message = {"command": program, "args": arguments, "cwd": str(ROOT)}
                direct[upstream.name] = stack.enter_context(stdio_client(upstream, seed, n_listed))
            else:
                url = stack.enter_context(http_server(upstream, seed, n_listed))
                entry = {"type": "http", "url": url}
                direct[upstream.name] = stack.enter_context(closing(HttpClient(url, upstream.era)))
            servers[upstream.name] = {**entry, "timeoutSeconds": _CALL_S}
        honest = ROOT / "tests" / "gateway" / "upstreams" / "odd_server.py"
        servers["honest"] = {"command": sys.executable, "args": [str(honest), "silent"]}
        started = stack.enter_context(gateway({"mcpServers": servers}, folder))
        started.until(_lists_all, "tools of every server")
        yield World(started, direct, seed)


def main(given: Sequence[str]) -> None:
    """Make some exchanges again."""
    is_of_lists = given[:1] == ["lists"]
    found = Found()
    with TemporaryDirectory() as folder, world(Path(folder), int(given[1]) if is_of_lists else 0, N_LISTED) as it:
        if is_of_lists:
            it.lists(found)
        else:
            it.exchanges(map(int, given), found)
    for difference in found.differences:
        print(difference)
    print(f"{len(found.differences)} of {found.n_compared} differ")


if __name__ == "__main__":
    main(sys.argv[1:])
