"""`git_status` on real working trees."""

from __future__ import annotations

import os
from pathlib import Path


class TestAnEmptyRepository:
    def test_has_a_branch_but_no_head_and_lists_its_first_staged_file(self, repo, call):
        status = call("git_status", repo="repo")
        assert (status["branch"], status["head"], status["clean"]) == ("main", None, True)
        repo.write("a.txt")
        repo.git("add", "a.txt")
        assert call("git_status", repo="repo")["staged"][0]["change"] == "added"
        assert call("git_diff", repo="repo", staged=True)["files"][0]["change"] == "added"


class TestChanges:
    def test_an_edit_of_a_clean_tree_is_unstaged_and_then_staged(self, repo, call):
        repo.commit("a.txt")
        assert call("git_status", repo="repo")["clean"] is True
        repo.write("a.txt", "other\n")
        status = call("git_status", repo="repo")
        assert (status["clean"], status["staged"], [c["path"] for c in status["unstaged"]]) == (False, [], ["a.txt"])
        repo.git("add", "a.txt")
        status = call("git_status", repo="repo")
        assert ([c["change"] for c in status["staged"]], status["unstaged"]) == (["modified"], [])

    def test_a_rename_knows_its_old_path(self, repo, call):
        repo.commit("old name.txt")
        repo.git("mv", "old name.txt", "new name.txt")
        change = call("git_status", repo="repo")["staged"][0]
        assert (change["change"], change["path"], change["old_path"]) == (
            "renamed",
            "new name.txt",
            "old name.txt",
        )

    def test_untracked_files_are_listed_unless_left_out_or_too_many(self, repo, call):
        repo.write("dir/new.txt")
        Path(os.fsdecode(os.fsencode(repo.path) + b"/caf\xe9.txt")).touch()
        assert call("git_status", repo="repo")["untracked"] == ["caf\\xe9.txt", "dir/new.txt"]
        assert call("git_status", repo="repo", untracked=False)["untracked"] == []
        for max_files, n, truncated in ((1, 1, True), (2, 2, False)):
            status = call("git_status", repo="repo", max_files=max_files)
            assert (len(status["untracked"]), status["truncated"]) == (n, truncated), max_files


class TestWhereHeadIs:
    def test_a_detached_head_has_no_branch(self, repo, call):
        oid = repo.commit()
        repo.git("checkout", "-q", "--detach")
        status = call("git_status", repo="repo")
        assert (status["branch"], status["head"]) == (None, oid)

    def test_a_branch_ahead_and_behind_counts_both(self, repo, make_repo, call):
        make_repo("up.git", bare=True)
        repo.commit()
        repo.git("remote", "add", "origin", "../up.git")
        repo.git("push", "-q", "-u", "origin", "main")
        repo.git("commit", "-q", "--amend", "-m", "other")
        status = call("git_status", repo="repo")
        assert (status["upstream"], status["n_ahead"], status["n_behind"]) == ("origin/main", 1, 1)


class TestConflicts:
    def test_a_merge_conflict_is_named_with_its_operation_and_once_in_the_diff(self, conflicted, call):
        status = call("git_status", repo="repo")
        assert (status["operation"], status["conflicted"]) == ("merge", ["a.txt"])
        diff = call("git_diff", repo="repo")
        assert [(f["path"], f["change"]) for f in diff["files"]] == [("a.txt", "conflicted")]


class TestReading:
    def test_status_does_not_touch_the_index(self, repo, call):
        repo.commit("a.txt")
        path = repo.path / ".git" / "index"
        os.utime(repo.path / "a.txt", (1, 1))
        before = path.read_bytes()
        call("git_status", repo="repo")
        assert path.read_bytes() == before
