"""`git_add`, `git_commit`, `git_stash`, `git_branches` and `git_checkout` change real repositories."""

from __future__ import annotations

from tests.every import every


class TestAdd:
    def test_it_stages_the_named_file_or_all_and_deletions_too(self, repo, call):
        repo.commit("gone.txt", "what was here\n")
        (repo.path / "gone.txt").unlink()
        repo.write("a.txt")
        repo.write("b.txt")
        assert [c["path"] for c in call("git_add", repo="repo", paths=["a.txt"])["staged"]] == ["a.txt"]
        staged = call("git_add", repo="repo", all=True)["staged"]
        assert {c["path"]: c["change"] for c in staged} == {"a.txt": "added", "b.txt": "added", "gone.txt": "deleted"}

    @every(("path", "name"), [("[ab].txt", "[ab].txt"), (":(top)a.txt", ":(top)a.txt"), ("./-rf", "-rf")])
    def test_a_name_like_a_pattern_magic_or_an_option_is_literal(self, repo, call, path, name):
        repo.git("read-tree", "--empty")
        repo.write("a.txt")
        repo.write(name)
        assert [c["path"] for c in call("git_add", repo="repo", paths=[path])["staged"]] == [name]

    @every(
        ("arguments", "told"),
        [
            ({"paths": ["nope"]}, "'nope' did not match any files"),
            ({"paths": ["secret"]}, "ignored"),
            ({"paths": ["inner"]}, "is a repository of its own"),
            *((odd, "pass either paths or all=true") for odd in ({}, {"paths": []}, {"paths": ["a"], "all": True})),
        ],
    )
    def test_what_can_not_be_added_is_said(self, repo, make_repo, refusal, arguments, told):
        repo.write(".gitignore", "secret\n")
        repo.write("secret")
        if not (repo.path / "inner").exists():
            make_repo("repo/inner").commit()
        assert told in refusal("git_add", repo="repo", **arguments)


class TestCommit:
    def test_it_records_what_is_staged_under_a_message_that_is_no_option(self, repo, call):
        repo.write("a.txt")
        repo.git("add", ".")
        message = "--amend # not a comment\n\nbody"
        done = call("git_commit", repo="repo", message=message)
        assert (done["hash"], done["subject"]) == (repo.git("rev-parse", "HEAD"), "--amend # not a comment")
        assert repo.git("log", "-1", "--format=%B") == message

    def test_all_stages_tracked_changes(self, repo, call):
        repo.commit("a.txt")
        repo.write("a.txt", "new\n")
        assert call("git_commit", repo="repo", message="m", all=True)["files"][0]["change"] == "modified"

    def test_with_nothing_staged_it_is_made_only_when_asked_for(self, repo, call, refusal):
        assert "nothing is staged" in refusal("git_commit", repo="repo", message="m")
        assert call("git_commit", repo="repo", message="m", allow_empty=True)["files"] == []
        assert "nothing is staged" in refusal("git_commit", repo="repo", message="m")
        repo.git("checkout", "-q", "--detach")
        assert call("git_commit", repo="repo", message="m", allow_empty=True)["branch"] is None

    def test_a_message_that_is_blank_or_has_a_nul_is_refused(self, repo, refusal):
        assert "message must not be empty" in refusal("git_commit", repo="repo", message=" \n")
        assert "refused character '\\x00'" in refusal("git_commit", repo="repo", message="a\0b")

    def test_open_conflicts_are_named_and_a_resolved_merge_is_concluded(self, conflicted, call, refusal):
        assert "unresolved conflicts in ['a.txt']" in refusal("git_commit", repo="repo", message="m")
        conflicted.write("a.txt", "ours\n")
        conflicted.git("add", "a.txt")
        call("git_commit", repo="repo", message="merged")
        assert len(conflicted.git("log", "-1", "--format=%P").split()) == 2

    def test_a_missing_identity_is_said(self, repo, refusal, root):
        (root.parent / "home" / ".gitconfig").write_text("")
        repo.write("a.txt")
        repo.git("add", ".")
        assert "user.name" in refusal("git_commit", repo="repo", message="m")


class TestStash:
    def test_push_sets_changes_aside_and_pop_brings_them_back(self, repo, call):
        repo.commit("a.txt", "old\n")
        path, new = repo.write("a.txt", "new\n"), repo.write("new.txt")
        pushed = call("git_stash", repo="repo", action="push", message="wip")
        assert (path.read_text(), new.exists(), pushed["entries"][0]["message"]) == ("old\n", True, "On main: wip")
        popped = call("git_stash", repo="repo", action="pop")
        assert (path.read_text(), popped["entries"]) == ("new\n", [])
        call("git_stash", repo="repo", action="push", include_untracked=True)
        assert not new.exists()
        call("git_stash", repo="repo", action="pop")
        assert (path.read_text(), new.exists()) == ("new\n", True)

    def test_nothing_to_stash_and_an_unknown_index_are_said(self, repo, call, refusal):
        assert "no commits yet" in refusal("git_stash", repo="repo", action="push")
        repo.commit()
        assert call("git_stash", repo="repo", action="push")["changed"] is False
        message = refusal("git_stash", repo="repo", action="drop", index=3)
        assert message == "no such stash: 3; there are 0, counted from 0"

    def test_drop_removes_the_named_entry(self, repo, call):
        repo.commit("a.txt", "0\n")
        for text in ("1\n", "2\n"):
            repo.write("a.txt", text)
            call("git_stash", repo="repo", action="push", message=text.strip())
        left = call("git_stash", repo="repo", action="drop", index=1)
        assert [e["message"] for e in left["entries"]] == ["On main: 2"]

    def test_a_conflict_names_its_files_and_keeps_the_entry(self, repo, call):
        repo.commit("a.txt", "0\n")
        repo.write("a.txt", "1\n")
        call("git_stash", repo="repo", action="push")
        repo.commit("a.txt", "2\n")
        stash = call("git_stash", repo="repo", action="pop")
        assert (stash["conflicted"], len(stash["entries"])) == (["a.txt"], 1)

    def test_changes_in_the_way_are_said(self, repo, refusal, call):
        repo.commit("a.txt", "0\n")
        repo.write("a.txt", "1\n")
        call("git_stash", repo="repo", action="push")
        repo.write("a.txt", "2\n")
        assert "would be overwritten" in refusal("git_stash", repo="repo", action="apply")


class TestBranches:
    def test_local_branches_are_listed_with_their_tips_as_many_as_asked(self, repo, call):
        branches = call("git_branches", repo="repo")
        assert (branches["current"], branches["local"]) == ("main", [])
        oid = repo.commit(message="subject")
        repo.git("branch", "feature/x")
        local = call("git_branches", repo="repo", scope="local")["local"]
        assert {b["name"]: (b["hash"], b["subject"]) for b in local} == {
            "main": (oid, "subject"),
            "feature/x": (oid, "subject"),
        }
        branches = call("git_branches", repo="repo", max_count=1)
        assert (len(branches["local"]), branches["truncated"]) == (1, True)

    def test_a_bare_repository_lists_its_branches(self, repo, make_repo, call):
        repo.commit()
        bare = make_repo("b.git", bare=True)
        bare.git("fetch", "-q", str(repo.path), "main:main")
        assert [b["name"] for b in call("git_branches", repo="b.git")["local"]] == ["main"]


class TestCheckout:
    def test_it_switches_to_a_branch_or_a_commit_or_creates_a_branch_where_asked(self, repo, call):
        first = repo.commit("same")
        second = repo.commit("same", text="x")
        repo.git("branch", "same")
        repo.git("tag", "same")
        assert call("git_checkout", repo="repo", revision="same") == {"branch": "same", "head": second}
        assert call("git_checkout", repo="repo", revision=first) == {"branch": None, "head": first}
        assert call("git_checkout", repo="repo", revision="main") == {"branch": "main", "head": second}
        head = call("git_checkout", repo="repo", revision="new", create=True, start="HEAD~1")
        assert head == {"branch": "new", "head": first}

    def test_create_in_an_empty_repository_renames_the_unborn_branch(self, repo, call):
        assert call("git_checkout", repo="repo", revision="new", create=True) == {
            "branch": "new",
            "head": None,
        }

    @every(
        ("place", "revision", "told"),
        [
            ("repo", "main", "branch exists already"),
            *(("repo", name, "not a branch name") for name in ("a..b", "a b", "HEAD", "a.lock", "@{-1}", "a~1")),
            ("b.git", "main", "has no working tree"),
        ],
    )
    def test_a_branch_that_exists_or_git_does_not_allow_is_not_created_nor_any_in_a_bare_repository(
        self, repo, make_repo, refusal, place, revision, told
    ):
        if not (repo.path / "a.txt").exists():
            repo.commit()
        make_repo("b.git", bare=True)
        assert told in refusal("git_checkout", repo=place, revision=revision, create=True)

    def test_a_branch_only_the_remote_has_is_hinted_at_and_then_tracked(self, repo, make_repo, call, refusal):
        make_repo("up.git", bare=True)
        repo.commit()
        repo.git("remote", "add", "origin", "../up.git")
        repo.git("push", "-q", "origin", "main:feature")
        assert "start='origin/feature'" in refusal("git_checkout", repo="repo", revision="feature")
        call("git_checkout", repo="repo", revision="feature", create=True, start="origin/feature")
        assert call("git_status", repo="repo")["upstream"] == "origin/feature"

    def test_changes_that_would_be_lost_stop_it(self, repo, refusal):
        repo.commit("a.txt", "1\n")
        repo.git("checkout", "-q", "-b", "other")
        repo.commit("a.txt", "2\n")
        repo.write("a.txt", "3\n")
        assert "would be overwritten" in refusal("git_checkout", repo="repo", revision="main")
