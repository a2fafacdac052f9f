"""The official conformance suite passes on `create_mcp_server` wherever it passes on bare FastMCP."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import node
from tests.every import every
from tests.wire.processes import HttpProcess

pytestmark = [pytest.mark.both_ends, pytest.mark.node, pytest.mark.timeout(900)]

REVISIONS: dict[str, tuple[str, ...]] = {
    "2026-07-28": ("--requirements", "2026-07-28"),
    "2025-11-25": ("--suite", "all", "--spec-version", "2025-11-25"),
}
HEALTHY = {"2026-07-28": 40, "2025-11-25": 33}
"""How many scenarios bare FastMCP passes at least; fewer, and the run or the fixture is broken."""

NOT_CARRIED: dict[str, dict[str, tuple[str, ...]]] = {
    "2026-07-28": {
        # An upstream's word that its lists changed is told on where they did change. Bare FastMCP tells none of these.
        "server-stateless": (
            "sep-2575-server-sends-prompts-list-changed-on-subscription",
            "sep-2575-server-sends-tools-list-changed-on-subscription",
        ),
    },
    "2025-11-25": {
        # An upstream that closes the stream of a call closes the gateway's, not the caller's.
        "server-sse-polling": ("server-sse-disconnect-resume",),
    },
}
"""Checks that a server passes and a gateway in front of it may not, by scenario; no other may be lost."""

PASSED_BEHIND = {"2026-07-28": 195 if find_spec("fastmcp_tasks") else 170, "2025-11-25": 83}
"""How many checks pass behind a gateway at least; of bare FastMCP's 190, or 165 without background tasks, and 84."""

AT_NIGHT = ("gateway-stdio", "proxy")

PINNED = {
    "json_schema_2020_12_tool": "json-schema-2020-12 looks at the schema in the list",
    "test_custom_headers": "http-custom-header-server-validation looks there for a tool that asks for headers",
}
"""Tools that are never deferred where others are, and the scenarios that look for them in the list."""

WORD_FOR_WORD = ("completion-", "elicitation-", "json-schema-", "prompts-", "resources-", "tools-")
"""Scenarios whose answers hold no id or address that differs from run to run, by how their names begin."""

_RUN_S = 300
_FIXTURE = Path(__file__).with_name("fixture_server.py")
_RESULTS = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
_BEST_FIRST = ("SUCCESS", "INFO", "SKIPPED", "WARNING", "FAILURE")

Scenarios = Mapping[str, Mapping[str, str]]
"""The worst status of each check, by the check's id, by scenario."""


@dataclass(frozen=True)
class Run:
    """One run of the suite against one server.

    Args:
        scenarios: what came of each check.
        answers: what the server answered, as the suite kept it for each check, in order, by scenario.
        n_passed: how many checks succeeded, each time that they were made.
        returncode: the suite's own judgement: 0 when nothing it requires failed.
    """

    scenarios: Scenarios
    answers: Mapping[str, list[tuple[str, Any]]]
    n_passed: int
    returncode: int

    @property
    def passed(self) -> set[str]:
        """Scenarios with a check that succeeded, and none that failed or warned."""
        return {name for name, checks in self.scenarios.items() if "SUCCESS" in checks.values()} - self.failed

    @property
    def failed(self) -> set[str]:
        """Scenarios with a check that failed or warned."""
        return {name for name, checks in self.scenarios.items() if {"FAILURE", "WARNING"} & set(checks.values())}

    @property
    def succeeded(self) -> set[tuple[str, str]]:
        """Checks that succeeded each time they were made."""
        return {
            (scenario, check)
            for scenario, checks in self.scenarios.items()
            for check, status in checks.items()
            if status == "SUCCESS"
        }


Runs = Mapping[tuple[str, str], Run]
"""Runs by maker and revision: `bare`, `factory`, `gateway`, which stands before `factory`, and `searched`, which is
`factory` where tools are deferred; at night `gateway-stdio`, before `factory` over stdio, and `proxy`, FastMCP's."""


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    suite, folder = node.conformance(), tmp_path_factory.mktemp("conformance")

    def run_all(maker: str, url: str) -> dict[tuple[str, str], Run]:
        return {
            (maker, revision): _run([*suite, "server", "--url", url, *flags], folder / maker / revision)
            for revision, flags in REVISIONS.items()
        }

    before = ("gateway", *AT_NIGHT) if request.config.getoption("--nightly") else ("gateway",)
    with ExitStack() as stack:
        urls = {maker: stack.enter_context(_served(maker)) for maker in ("bare", "factory")}
        for maker in before:
            # One of its own: a server tells all its clients of changes that any of them brings about.
            urls[maker] = stack.enter_context(_served(maker, stack.enter_context(_served("factory"))))
        deferring = {"MCP_TOOL_SEARCH": "on", "MCP_PINNED_TOOLS": ",".join(PINNED)}
        urls["searched"] = stack.enter_context(_served("factory", **deferring))
        with ThreadPoolExecutor(max_workers=len(urls)) as pool:
            return {key: run for made in pool.map(run_all, urls, urls.values()) for key, run in made.items()}


@contextmanager
def _served(maker: str, *more: str, **env: str) -> Iterator[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MCP_")}
    with tempfile.TemporaryDirectory(prefix="conformance-") as home:
        environ |= {"MCP_GATEWAY_FOLDER": home, "PYTHONPATH": str(_FIXTURE.parents[2]), **env}
        process = HttpProcess([sys.executable, str(_FIXTURE), maker, "0", *more], environ)
        try:
            process.wait()
            yield f"{process.url}/mcp"
        finally:
            process.stop()


def _run(command: list[str], results: Path) -> Run:
    done = subprocess.run([*command, "--output-dir", str(results)], capture_output=True, text=True, timeout=_RUN_S)
    assert results.is_dir(), f"the suite wrote no results:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    scenarios: dict[str, dict[str, str]] = {}
    answers: dict[str, list[tuple[str, Any]]] = {}
    n_passed = 0
    for file in sorted(results.glob("*/checks.json")):
        named = _RESULTS.fullmatch(file.parent.name)
        assert named is not None, f"not the name of a result: {file.parent.name!r}"
        checks, answered = scenarios.setdefault(named[1], {}), answers.setdefault(named[1], [])
        for check in json.loads(file.read_text()):
            n_passed += check["status"] == "SUCCESS"
            met = checks.get(check["id"], _BEST_FIRST[0])
            checks[check["id"]] = max(met, check["status"], key=_BEST_FIRST.index)
            answered.append((check["id"], check.get("details")))
    return Run(scenarios, answers, n_passed, done.returncode)


@every("revision", REVISIONS)
class TestAgainstBareFastMCP:
    def test_every_scenario_that_bare_passes_ours_passes(self, runs: Runs, revision: str) -> None:
        assert runs["bare", revision].passed - runs["factory", revision].passed == set()

    def test_every_check_that_bare_passes_ours_passes(self, runs: Runs, revision: str) -> None:
        assert runs["bare", revision].succeeded - runs["factory", revision].succeeded == set()

    def test_ours_answers_word_for_word_as_bare_does(self, runs: Runs, revision: str) -> None:
        bare, ours = runs["bare", revision].answers, runs["factory", revision].answers
        compared = [scenario for scenario in bare if scenario.startswith(WORD_FOR_WORD)]
        assert len(compared) >= 18
        assert {name: ours.get(name) for name in compared} == {name: bare[name] for name in compared}

    def test_ours_fails_nothing_that_bare_does_not(self, runs: Runs, revision: str) -> None:
        assert runs["factory", revision].failed - runs["bare", revision].failed == set()

    def test_both_run_the_same_scenarios(self, runs: Runs, revision: str) -> None:
        assert runs["bare", revision].scenarios.keys() == runs["factory", revision].scenarios.keys()


@pytest.mark.parametrize("maker", ["gateway", pytest.param("gateway-stdio", marks=pytest.mark.nightly)])
@every("revision", REVISIONS)
class TestBehindAGateway:
    def test_what_the_server_passes_it_passes_behind_one_but_for_what_is_named(
        self, runs: Runs, revision: str, maker: str
    ) -> None:
        lost = runs["factory", revision].succeeded - runs[maker, revision].succeeded
        named = {(scenario, check) for scenario, checks in NOT_CARRIED[revision].items() for check in checks}
        assert lost - named == set()

    def test_as_many_checks_pass_as_are_stated(self, runs: Runs, revision: str, maker: str) -> None:
        assert runs[maker, revision].n_passed >= PASSED_BEHIND[revision]

    def test_the_same_scenarios_are_run(self, runs: Runs, revision: str, maker: str) -> None:
        assert runs[maker, revision].scenarios.keys() == runs["factory", revision].scenarios.keys()


@every("revision", REVISIONS)
class TestWhereToolsAreDeferred:
    """Lists still depend on nothing but the request in the stateless era, and every tool answers to its name."""

    def test_no_scenario_is_lost(self, runs: Runs, revision: str) -> None:
        assert runs["factory", revision].passed - runs["searched", revision].passed == set()

    def test_the_same_scenarios_are_run(self, runs: Runs, revision: str) -> None:
        assert runs["searched", revision].scenarios.keys() == runs["factory", revision].scenarios.keys()


@every("revision", REVISIONS)
class TestTheRun:
    def test_bare_passes_a_healthy_number(self, runs: Runs, revision: str) -> None:
        assert len(runs["bare", revision].passed) >= HEALTHY[revision]

    def test_bare_fails_nothing_but_the_tasks_extension_which_is_optional(self, runs: Runs, revision: str) -> None:
        assert {name for name in runs["bare", revision].failed if not name.startswith("tasks-")} == set()

    def test_the_suite_itself_finds_ours_conformant(self, runs: Runs, revision: str) -> None:
        assert runs["factory", revision].returncode == 0


def test_the_table(runs: Runs, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tuple[str, ...]] = [
        ("revision", "server", "scenarios passed", "failed", "not applicable", "checks passed")
    ]
    for (maker, revision), run in sorted(runs.items(), key=lambda item: item[0][::-1]):
        n_passed, n_failed = len(run.passed), len(run.failed)
        n_other = len(run.scenarios) - n_passed - n_failed
        rows.append((revision, maker, *map(str, (n_passed, n_failed, n_other, run.n_passed))))
    with capsys.disabled():
        print()
        for row in rows:
            print("  ".join(cell.ljust(16) for cell in row).rstrip())
    assert len(rows) == 1 + len(runs)
