"""What features keep of a session: steps are applied to what there is, whoever was faster."""

from __future__ import annotations

from agent_utilities.mcp.sessions import Session, SessionStore


class TestUpdates:
    def test_a_step_that_another_overtook_is_applied_to_the_newer_value(self) -> None:
        session = Session(SessionStore())
        seen: list[int] = []

        def overtaken(value: int) -> int:
            seen.append(value)
            if len(seen) == 1:
                session.update("counts", 0, lambda other: other + 10)
            return value + 1

        assert session.update("counts", 0, overtaken) == 11
        assert seen == [0, 10]

    def test_an_old_version_replaces_nothing(self) -> None:
        store = SessionStore()
        assert store.swap("a", 0, {"counts": 1})
        assert not store.swap("a", 0, {"counts": 2})
        assert store.load("a") == ({"counts": 1}, 1)

    def test_a_report_changes_nothing_of_the_session(self) -> None:
        session = Session(SessionStore())
        session.update("names", (), lambda names: (*names, "git_log"))
        copied = session.as_it_stands()
        copied.update("names", (), lambda names: (*names, "git_diff"))
        assert session.get("names", ()) == ("git_log",)
        assert copied.get("names", ()) == ("git_log", "git_diff")
