"""The revision: what a caller may learn, and nothing that he may not."""

from __future__ import annotations

import subprocess
import sys

from agent_utilities.catalog.model import Catalog, Entry, entry
from agent_utilities.policy.curation import preferences_of
from agent_utilities.policy.decision import decide, revision
from agent_utilities.selection.merge import asked_digest, effective, merge
from agent_utilities.selection.parse import read_cli, read_request

TAIL = entry("tool", "tail_log", tags={"logs", "read"}, read_only=True)
SEARCH = entry("tool", "search_logs", tags={"logs", "read"}, read_only=True)
DELETE = entry("tool", "delete_log", tags={"logs", "write"})


def revision_of(*entries: Entry, query: bytes = b"", operator: tuple[tuple[str, str], ...] = ()) -> str:
    caller = read_request(query, ())
    settled = effective(merge(read_cli(operator), caller))
    return revision(decide(Catalog(entries), settled, preferences_of(settled)), asked_digest(caller))


class TestChanges:
    def test_with_what_the_caller_asks_for(self):
        for query in [b"tools=tail_log", b"disabled_tags=gone", b"top_k=1", b"q=logs", b"read_only=1"]:
            assert revision_of(TAIL, SEARCH, query=query) != revision_of(TAIL, SEARCH)

    def test_with_a_permitted_tool(self):
        for other in [
            entry("tool", "tail_log", tags={"logs"}, read_only=True),
            entry("tool", "tail_log", tags={"logs", "read"}),
            entry("tool", "tail_log", tags={"logs", "read"}, read_only=True, content="new words"),
        ]:
            assert revision_of(other, SEARCH) != revision_of(TAIL, SEARCH)

    def test_with_what_the_operator_shows_of_the_permitted(self):
        assert revision_of(TAIL, SEARCH, operator=(("--top-k", "1"),)) != revision_of(TAIL, SEARCH)


class TestStays:
    def test_whichever_way_a_tool_is_denied_or_whether_it_is_there(self):
        for query in [b"", b"read_only=1", b"disabled_tags=write"]:
            for operator in [
                (("--disabled-tools", "delete_log"),),
                (("--disabled-tools", "delete_log,tail"), ("--disabled-tags", "write")),
                (("--tags", "read"),),
                (("--read-only", "true"),),
            ]:
                without_it = revision_of(TAIL, SEARCH, query=query)
                assert revision_of(TAIL, DELETE, SEARCH, query=query, operator=operator) == without_it

    def test_over_channels(self):
        by_query, by_header = read_request(b"top_k=1", ()), read_request(b"", ((b"x-mcp-top-k", b"1"),))
        assert asked_digest(by_query) == asked_digest(by_header) != asked_digest(read_request(b"", ()))

    def test_in_every_process(self):
        program = (
            "from agent_utilities.catalog.model import *; from agent_utilities.selection.merge import *;"
            "from agent_utilities.selection.parse import *; from agent_utilities.policy.decision import *;"
            "from agent_utilities.policy.decision import *;"
            "c = Catalog((entry('tool', 'a', tags={'x', 'y', 'z'}), entry('tool', 'b')));"
            "asked = read_request(b'tools=a,b,c,d&disabled_tags=p,q,r&q=words', ());"
            "print(revision(decide(c, effective(asked)), asked_digest(asked)))"
        )
        seen = {
            subprocess.run(
                [sys.executable, "-c", program],
                env={"PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for seed in ("1", "2", "3")
        }
        assert len(seen) == 1
