"""Rules and tokens that are edited while a server serves: taken whole or not at all, and told to whom they change."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from agent_utilities.access import feature, token_file
from agent_utilities.access.token_file import TokenFile, read_tokens, revoke_token
from agent_utilities.errors import InputError
from agent_utilities.runtime import process_io
from agent_utilities.seam.events import PolicyChanged
from agent_utilities.seam.feature import NOT_TAKEN, Feature
from agent_utilities.seam.request import Request
from agent_utilities.selection.merge import Narrowing
from agent_utilities.selection.model import Selection
from tests.access.team import SETTINGS, Team
from tests.every import every
from tests.runtime.odd_files import ODD
from tests.server.servers import running
from tests.wire.http_raw import RawHttp, Stream
from tests.wire.raw_clients import RawSession
from tests.wire.wires import modern_request

pytestmark = pytest.mark.outside
ALL, READ = ["git_log", "git_push", "git_status"], ["git_log", "git_status"]
BOB_MAY_ALL = SETTINGS.replace('profile = "readers"', 'profile = "all"')
NOTICE = "notifications/tools/list_changed"
WAIT_S = 60
LOOK_S = process_io.LOOK_S
KINDS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


@pytest.fixture(autouse=True)
def _looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at more often than they are in use."""
    monkeypatch.setattr(process_io, "LOOK_S", 0.05)


class TwoHoursLater(datetime):
    """The time of tokens, two hours on."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Any:
        return datetime.now(tz) + timedelta(hours=2)


class Switched(Feature):
    """Takes `git_push` away from everybody, or from nobody, and from each request the other way round."""

    name = "switched"

    def __init__(self, active: bool) -> None:
        self._active = active

    def bounds_for(self, caller: Selection) -> Narrowing:
        return Narrowing(self.name, deny_tools=frozenset({"git_push"} if self._active else ()))

    async def narrow(self, request: Request) -> Narrowing:
        return Narrowing(self.name, deny_tools=frozenset(() if self._active else {"git_push"}))


class Serving:
    """A team's server on a socket, and what it tells of its rules.

    Args:
        team: the team.
        features: the server's own.
    """

    def __init__(self, team: Team, *features: Feature) -> None:
        self.team = team
        self.ann, self.bob = team.token("ann"), team.token("bob")
        self.server = team.server(features=features)
        self.url, self.streams = "", ExitStack()
        self.policy_changed = threading.Event()
        self.server.features.observe(lambda _: self.policy_changed.set(), PolicyChanged)

    def after(self, edit: Callable[[], object]) -> None:
        """Edit something, and return once it is taken."""
        self.policy_changed.clear()
        edit()
        assert self.policy_changed.wait(WAIT_S), "the edit was not taken"

    def listed(self, who: dict[str, str]) -> list[str] | int:
        """Return the names that a caller is listed, or the status where they are refused."""
        request, headers = modern_request("tools/list")
        with closing(RawHttp(self.url)) as http:
            reply = http.send("POST", "/mcp", [*headers, *who.items()], request)
        return (
            [t["name"] for t in json.loads(reply.message)["result"]["tools"]] if reply.status == 200 else reply.status
        )

    def ready(self) -> Any:
        """Return what `/ready` tells ann."""
        with closing(RawHttp(self.url)) as http:
            return http.get("/ready", [*self.ann.items()]).json

    def session(self, who: dict[str, str]) -> RawSession:
        """Open a session whose caller has listed tools."""
        opened = RawSession(self.url, tuple(who.items()))
        self.streams.callback(opened.stream.close)
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            opened.ask(method, {})
        return opened

    def stream(self, who: dict[str, str]) -> Stream:
        """Open a stream of `subscriptions/listen` whose caller has listed tools."""
        for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
            request, headers = modern_request(method)
            with closing(RawHttp(self.url)) as http:
                assert http.send("POST", "/mcp", [*headers, *who.items()], request).status == 200
        request, headers = modern_request("subscriptions/listen", {"notifications": KINDS})
        with closing(RawHttp(self.url)) as http:
            opened = http.stream("/mcp", [*headers, *who.items()], request)
        self.streams.callback(opened.close)
        assert b"acknowledged" in opened.event()
        return opened


@contextmanager
def serving(folder: Path, *features: Feature) -> Iterator[Serving]:
    served = Serving(Team(folder), *features)
    with running(served.server) as served.url, served.streams:  # it waits for streams when it stops
        yield served


@contextmanager
def told(words: str) -> Iterator[threading.Event]:
    """An event that is set once the log of access says some words."""
    found = threading.Event()

    class Waiting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if words in record.getMessage():
                found.set()

    handler, logger = Waiting(), logging.getLogger("agent_utilities.access")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def methods(messages: list[dict[str, Any]]) -> list[str]:
    return [message["method"] for message in messages if "method" in message]


class TestNotices:
    def test_a_session_is_told_of_the_list_that_an_edit_changed_and_another_of_nothing(self, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            ann, bob = served.ann, served.bob
            unchanged, changed = served.session(ann), served.session(bob)
            served.after(lambda: served.team.write(BOB_MAY_ALL))
            assert json.loads(changed.stream.event())["method"] == NOTICE
            assert methods(changed.rest()) == []
            assert methods(unchanged.rest()) == []

    def test_a_stream_is_told_of_the_list_that_an_edit_changed_and_another_of_nothing(self, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            unchanged, changed = served.stream(served.ann), served.stream(served.bob)
            served.after(lambda: served.team.write(BOB_MAY_ALL))
            assert json.loads(changed.event())["method"] == NOTICE
            # What comes next on either is of the tool that is added for both.
            served.server.tool(name="git_tag", annotations={"readOnlyHint": True})(lambda: "done")
            assert json.loads(unchanged.event())["method"] == NOTICE
            assert json.loads(changed.event())["method"] == NOTICE
            served.after(lambda: served.team.write(SETTINGS))
            assert json.loads(changed.event())["method"] == NOTICE

    def test_who_asks_for_less_is_told_of_nothing_that_they_did_not_ask_for(self, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            bob = served.bob
            narrow = served.session({**bob, "x-mcp-enabled-tools": "git_log"})
            whole = served.session(bob)
            served.after(lambda: served.team.write(BOB_MAY_ALL))
            assert json.loads(whole.stream.event())["method"] == NOTICE
            assert methods(narrow.rest()) == []
            whole.rest()

    @every("active", [True, False])
    def test_what_a_feature_took_away_for_a_session_counts(self, active: bool, tmp_path: Path) -> None:
        with serving(tmp_path, Switched(active)) as served:
            bob = served.session(served.bob)
            served.after(lambda: served.team.write(BOB_MAY_ALL))
            if active:
                assert json.loads(bob.stream.event())["method"] == NOTICE
            assert methods(bob.rest()) == []

    def test_an_edit_that_moves_rules_and_changes_no_list_is_told_to_nobody(self, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            bob = served.session(served.bob)
            served.after(lambda: served.team.write("# moved\n\n" + SETTINGS))
            served.after(lambda: served.team.write(SETTINGS.replace("read_only = true", "read_only = true\npin='x'")))
            assert methods(bob.rest()) == []


class TestWholeOrNotAtAll:
    def test_an_edit_holds_for_requests_from_then_on(self, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            bob = served.bob
            before = served.listed(bob)
            served.after(lambda: served.team.write(BOB_MAY_ALL))
            assert (before, served.listed(bob)) == (READ, ALL)

    @every(
        "broken",
        [
            b"[[access]]\nwho =",
            SETTINGS.encode()[:-20],
            b"\xff\xfe",
            b"x = " + b"[" * 100_000,
            SETTINGS.replace('profile = "readers"', 'profile = "no_such"').encode(),
            SETTINGS.replace("subject", "subjct").encode(),
            SETTINGS.replace("[auth]", '[auth]\nselection_policy = "override"').encode(),
            b'selection_policy = "override"\n' + SETTINGS.encode(),
            b"[profiles.readers]\nread_only = true\n",
            b"",
            None,
        ],
        ids=["half", "cut", "no-text", "deep", "profile", "key", "misplaced", "override", "no-rules", "empty", "gone"],
    )
    def test_what_can_not_hold_is_told_and_the_rules_stay(self, broken: bytes | None, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            bob = served.bob
            assert served.listed(bob) == READ
            with told("the rules of access stay as they were") as found:
                if broken is None:
                    served.team.settings.unlink()
                else:
                    served.team.settings.write_bytes(broken.replace(b"{{", b"{").replace(b"}}", b"}"))
                assert found.wait(WAIT_S)
            assert (served.listed(bob), served.ready()["rules"]) == (READ, NOT_TAKEN)
            served.after(lambda: served.team.write(BOB_MAY_ALL))
            assert (served.listed(bob), "rules" in served.ready()) == (ALL, False)


class TestTokens:
    def test_a_new_one_is_taken_and_a_revoked_one_refused(self, tmp_path: Path) -> None:
        made: dict[str, str] = {}
        with serving(tmp_path) as served:
            served.after(lambda: made.update(served.team.token("intern-1")))
            assert served.listed(made) == READ
            served.after(lambda: revoke_token(served.team.tokens, "intern-1"))
            assert served.listed(made) == 401

    def test_are_looked_at_often_enough_to_be_refused_within_a_second(self) -> None:
        assert 2 * LOOK_S < 1

    def test_the_stream_of_one_that_ends_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with serving(tmp_path) as served:
            of_bob, of_ann = served.session(served.bob), served.session(served.ann)
            held = json.loads(served.team.tokens.read_bytes())
            held["tokens"][1]["expires"] = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
            served.after(lambda: served.team.tokens.write_text(json.dumps(held)))
            assert served.listed(served.bob) == READ
            served.after(lambda: monkeypatch.setattr(token_file, "datetime", TwoHoursLater))
            assert served.listed(served.bob) == 401
            assert b"data:" not in of_bob.stream.read()
            served.server.tool(name="git_tag", annotations={"readOnlyHint": True})(lambda: "done")
            assert json.loads(of_ann.stream.event())["method"] == NOTICE
            of_ann.rest()
            of_bob.close()

    @every("broken", [b"{", b'{"v": 2, "tokens": []}', b"\xff", b'{"v": 1, "tokens": [{"name": 1}]}'])
    def test_a_file_that_can_not_be_read_is_told_and_what_it_held_holds(self, broken: bytes, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            bob = served.bob
            kept = served.team.tokens.read_bytes()
            with told("what it held before still holds") as found:
                served.team.tokens.write_bytes(broken)
                assert found.wait(WAIT_S)
            assert served.listed(bob) == READ
            served.after(lambda: served.team.tokens.write_bytes(kept.replace(b'"bob"', b'"bib"')))
            assert served.listed(bob) == []

    @every("mode", [0o644, 0o660, 0o602])
    def test_a_file_that_was_made_its_owners_alone_is_taken_as_it_is(self, mode: int, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            bob, path = served.bob, served.team.tokens
            with told("chmod 600") as found:
                path.with_name("new").write_bytes(path.read_bytes().replace(b'"bob"', b'"bib"'))
                path.with_name("new").chmod(mode)
                path.with_name("new").replace(path)
                assert found.wait(WAIT_S)
            assert served.ready()["tokens"].startswith("others may read or write the tokens; ")
            assert served.listed(bob) == READ
            served.after(lambda: path.chmod(0o600))
            assert served.listed(bob) == []
            assert "tokens" not in served.ready()

    def test_a_file_that_could_not_be_read_is_tried_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        failing, failures = threading.Event(), []

        def read_by_a_disk_that_fails(path: Path) -> TokenFile:
            if failing.is_set():
                failures.append(path)
                raise InputError("the tokens can't be read", "input/output error", str(path), "look at the disk")
            return read_tokens(path)

        with serving(tmp_path) as served:
            monkeypatch.setattr(feature, "read_tokens", read_by_a_disk_that_fails)
            failing.set()
            with told("what it held before still holds") as found:
                revoke_token(served.team.tokens, "bob")
                assert found.wait(WAIT_S)
            assert served.listed(served.bob) == READ
            served.after(failing.clear)
            assert served.listed(served.bob) == 401

    @every("odd", ODD)
    def test_what_is_no_file_is_passed_over_and_the_next_file_taken(
        self, odd: Callable[[Path], object], tmp_path: Path
    ) -> None:
        with serving(tmp_path) as served:
            kept = served.team.tokens.read_bytes()
            with told("what it held before still holds") as found:
                served.team.tokens.unlink()
                odd(served.team.tokens)
                assert found.wait(WAIT_S)

            def bring_back() -> None:
                served.team.tokens.with_name("new").write_bytes(kept.replace(b'"bob"', b'"bib"'))
                served.team.tokens.with_name("new").chmod(0o600)
                if served.team.tokens.is_dir():
                    served.team.tokens.rmdir()
                served.team.tokens.with_name("new").replace(served.team.tokens)

            served.after(bring_back)
            assert served.listed(served.bob) == []

    def test_without_the_file_no_token_is_taken(self, tmp_path: Path) -> None:
        with serving(tmp_path) as served:
            bob = served.bob
            served.after(served.team.tokens.unlink)
            assert served.listed(bob) == 401
