"""The fast suite, `--fast`: what needs no socket, no process of its own and no long run; a test that lies is failed.

A test is left out where it is marked `outside`, asks for a fixture that reaches outside, or stands in `OUTSIDE`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

FIXTURES = frozenset({"servers", "accesses", "callers", "neo4j_server", "crashing_neo4j"})
"""Fixtures that start servers."""
OUTSIDE = (
    "agents/git-agent/tests/test_git_confinement.py",
    "agents/git-agent/tests/test_git_history.py",
    "agents/git-agent/tests/test_git_hostile.py",
    "agents/git-agent/tests/test_git_process.py",
    "agents/git-agent/tests/test_git_remotes.py",
    "agents/git-agent/tests/test_git_status.py",
    "agents/git-agent/tests/test_git_work.py",
    "tests/architecture/test_imports.py",
    "tests/architecture/test_metadata.py::test_the_metadata_are_not_read_before_they_are_asked_for",
    "tests/cli/test_app.py::test_a_command",
    "tests/cli/test_connect.py::TestCommand",
    "tests/cli/test_eval.py::TestCommand",
    "tests/cli/test_eval.py::TestRefusals",
    "tests/cli/test_eval.py::TestServer",
    "tests/cli/test_explain.py",
    "tests/cli/test_gateway_capabilities.py",
    "tests/cli/test_graph.py::TestGateway::test_is_not_brought_in_from_afar",
    "tests/cli/test_graph.py::TestLife",
    "tests/cli/test_graph.py::TestRefused",
    "tests/cli/test_new.py",
    "tests/conformance/",
    "tests/demo/test_demos.py",
    "tests/demo/test_office.py",
    "tests/docs/",
    "tests/query/graph/test_availability.py",
    "tests/query/graph/test_clocks.py",
    "tests/query/graph/test_faults",
    "tests/query/graph/test_injection.py",
    "tests/query/graph/test_kill.py",
    "tests/query/graph/test_match.py",
    "tests/query/graph/test_operator_queries.py",
    "tests/query/graph/test_shutdown.py",
    "tests/query/graph/test_stampede.py",
    "tests/query/graph/test_sync.py",
    "tests/query/graph/test_writes_refused.py",
    "tests/query/test_embeddings.py",
    "tests/server/test_proxy.py",
    "tests/server/test_server_cli.py",
    "tests/query/ranking/test_endpoint.py",
    "tests/query/ranking/test_laws.py",
    "tests/query/ranking/test_providers.py",
    "tests/testing/test_fakes.py::TestHashedEmbeddings::test_are_the_same_in_every_process",
    "tests/testing/test_fakes.py::test_pytest_is_not_imported",
    "tests/policy/test_revision.py::TestStays::test_in_every_process",
    "tests/wire/",
)
"""Where the tests stand that start processes, open sockets, or take seconds: beginnings of node ids."""
_EVENTS = frozenset({"socket.bind", "socket.connect", "subprocess.Popen", "os.posix_spawn", "os.fork", "os.system"})
_OUTPUT = "fast suite: left out"
_IPV6_PROBE = ("::1", 0)
"""What urllib3 binds when it is imported, to learn whether there is IPv6."""


class OutsideError(RuntimeError):
    """A test of the fast suite opened a socket or started a process."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} in a test of the fast suite; mark it with pytest.mark.outside")


def is_outside(item: pytest.Item) -> bool:
    """Whether a test is left out of the fast suite."""
    if item.get_closest_marker("outside") or item.get_closest_marker("node") or item.get_closest_marker("nightly"):
        return True
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    fixtures = FIXTURES.intersection(getattr(item, "fixturenames", ()))
    return bool(fixtures) or parameters.get("backend") == "neo4j" or item.nodeid.startswith(OUTSIDE)


class FastSuite:
    """Leaves out the tests that reach outside, and fails the others where they do.

    Args:
        beside: marks of tests that are run beside them, and may.
    """

    def __init__(self, beside: Sequence[str] = ()) -> None:
        self._beside = frozenset(beside)
        self._left_out: Counter[str] = Counter()
        self._running = False
        self._broken: list[str] = []
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: Sequence[object]) -> None:
        if not self._running or event not in _EVENTS:
            return
        # Sockets in the file system are files that a test is about: they reach no other process.
        if event.startswith("socket.") and (isinstance(arguments[1], str | bytes) or arguments[1] == _IPV6_PROBE):
            return
        # The code under test may swallow the error, so that it is also told when the test ends.
        self._broken.append(event)
        raise OutsideError(event)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if is_outside(item) and not self._is_beside(item)]
        items[:] = [item for item in items if not is_outside(item) or self._is_beside(item)]
        self._left_out.update(item.nodeid.partition("::")[0] for item in left_out)
        config.hook.pytest_deselected(items=left_out)

    def _is_beside(self, item: pytest.Item) -> bool:
        return any(mark.name in self._beside for mark in item.iter_markers()) and not item.get_closest_marker("nightly")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> object:
        self._running = not self._is_beside(item)
        try:
            return (yield)
        finally:
            self._running = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> object:
        result = yield
        broken, self._broken = self._broken, []
        if broken:
            pytest.fail(str(OutsideError(", ".join(sorted(set(broken))))), pytrace=False)
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Tell the process that started this one, where several run the tests."""
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output[_OUTPUT] = dict(self._left_out)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a process left out; all leave out the same."""
        self._left_out |= Counter(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._left_out:
            terminalreporter.section(f"fast: {self._left_out.total()} tests left out, which reach outside")
            for path, n_tests in sorted(self._left_out.items()):
                terminalreporter.write_line(f"{n_tests:5} {path}")
