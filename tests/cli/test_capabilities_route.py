"""`agent-utilities capabilities route`: messages in, where they lead out."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agent_utilities.cli.app import main
from agent_utilities.cli.evaluation.run import route_messages
from agent_utilities.errors import InputError
from tests.command_line import run_command

TRIGGERS = {
    "docker": ["list running docker containers", "build a docker image", "inspect docker container logs"],
    "calendar": ["schedule a meeting", "check my calendar for tomorrow", "find a free slot next week"],
    "maps": ["give me directions on the map", "how far is it between these two places"],
}


@pytest.fixture
def tap(tmp_path: Path) -> Path:
    for name, triggers in TRIGGERS.items():
        folder = tmp_path / "tap" / "capabilities" / name
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(f"triggers = {json.dumps(triggers)}\n")
    return tmp_path / "tap"


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def routed(tap: Path, rows: Path) -> list[dict[str, object]]:
    out = tap / "out.jsonl"
    route_messages(tap, rows, out, by_words=True)
    return [json.loads(line) for line in out.read_text().splitlines()]


class TestRoutes:
    def test_have_every_capability_best_first(self, tap: Path) -> None:
        row = write(tap / "rows.jsonl", {"intent": "show the docker containers that run", "id": 7})
        (route,) = routed(tap, row)
        assert list(route) == ["intent", "scores", "activated"]
        assert route["activated"] == "docker"
        scores = route["scores"]
        assert isinstance(scores, list)
        assert {name for name, _ in scores} == set(TRIGGERS)
        assert scores == sorted(scores, key=lambda item: (-item[1], item[0]))

    def test_lead_nowhere_where_nothing_is_called_for(self, tap: Path) -> None:
        for intent in ["", "ok", "tell me a joke", "<log>list running docker containers</log>"]:
            assert routed(tap, write(tap / "rows.jsonl", {"intent": intent}))[0]["activated"] is None

    def test_come_in_the_order_of_the_messages(self, tap: Path) -> None:
        intents = ["build an image with docker", "schedule a meeting", "build an image with docker"]
        rows = write(tap / "rows.jsonl", *({"intent": intent} for intent in intents))
        assert [route["intent"] for route in routed(tap, rows)] == intents

    def test_are_the_same_for_a_tap_and_for_its_bundles(self, tap: Path) -> None:
        rows = write(tap / "rows.jsonl", {"intent": "schedule a meeting with Bob"})
        assert routed(tap, rows) == routed(tap / "capabilities", rows)

    def test_of_labelled_messages_are_measured(self, tap: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rows = write(
            tap / "rows.jsonl",
            {"intent": "schedule a meeting with Bob", "label": "calendar"},
            {"intent": "build a docker image", "label": "maps"},
            {"intent": "tell me a joke", "label": None},
            {"intent": "build a docker image"},
        )
        routed(tap, rows)
        told = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["top-1", "0.500", "(1", "of", "2)"] in told
        assert ["hit", "by", "the", "gate", "0.500", "(1", "of", "2)"] in told
        assert ["abstained", "by", "the", "gate", "1.000", "(1", "of", "1)"] in told

    def test_are_measured_by_the_command_without_a_file_to_write(
        self, tap: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        rows = write(tap / "rows.jsonl", {"intent": "schedule a meeting with Bob", "label": "calendar"})
        arguments = ["capabilities", "route", "--folder", str(tap), "--rows", str(rows), "--words"]
        done = run_command(main, ["agent-utilities", *arguments], dict(os.environ), capfd)
        assert (done.returncode, done.stdout.split()[:2]) == (0, ["top-1", "1.000"])


class TestBadInput:
    def test_is_told_with_its_line(self, tap: Path) -> None:
        for row in ["{", "[]", '{"words": "x"}', '{"intent": 3}', '{"intent": "x", "label": 1}']:
            rows = tap / "rows.jsonl"
            rows.write_text(f'{{"intent": "fine"}}\n\n{row}\n')
            with pytest.raises(InputError, match=r"rows\.jsonl line 3"):
                routed(tap, rows)

    def test_leaves_what_was_written_before(self, tap: Path) -> None:
        rows, out = write(tap / "rows.jsonl", {"intent": "x"}, {"intent": None}), write(tap / "out.jsonl", "before")
        with pytest.raises(InputError, match="intent can't be read"):
            route_messages(tap, rows, out, by_words=True)
        assert out.read_text() == '"before"\n'

    def test_a_folder_without_triggers_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        rows = write(tmp_path / "rows.jsonl", {"intent": "x"})
        with pytest.raises(InputError, match="no capability with triggers"):
            route_messages(tmp_path / "empty", rows, None, by_words=True)

    def test_an_output_that_is_a_link_stays_one(self, tap: Path) -> None:
        target, link = tap / "target.jsonl", tap / "link.jsonl"
        target.touch()
        link.symlink_to(target)
        route_messages(tap, write(tap / "rows.jsonl", {"intent": "x"}), link, by_words=True)
        assert link.is_symlink()
        assert json.loads(target.read_text())["intent"] == "x"
