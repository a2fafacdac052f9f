"""`git_add`, `git_commit`, `git_stash`, `git_branches` and `git_checkout` change real repositories."""

from __future__ import annotations

from tests.every import every


class TestAdd:
    def test_it_stages_the_named_file(self, repo, call):
        repo.write("a.txt")
        repo.write("b.txt")
        assert [c["path"] for c in call("git_add", repo="repo", paths=["a.txt"])["staged"]] == ["a.txt"]

    def test_all_stages_deletions_too(self, repo, call):
        repo.commit("a.txt")
        (repo.path / "a.txt").unlink()
        assert call("git_add", repo="repo", all=True)["staged"][0]["change"] == "deleted"

    def test_a_name_that_looks_like_a_pattern_is_literal(self, repo, call):
        repo.write("[ab].txt")
        repo.write("a.txt")
        assert [c["path"] for c in call("git_add", repo="repo", paths=["[ab].txt"])["staged"]] == ["[ab].txt"]

    def test_a_name_that_looks_like_pathspec_magic_is_literal(self, repo, call):
        repo.write(":(top)a.txt")
        assert call("git_add", repo="repo", paths=[":(top)a.txt"])["staged"][0]["path"] == ":(top)a.txt"

    def test_a_name_with_a_dash_is_reached_from_the_top(self, repo, call):
        repo.write("-rf")
        assert call("git_add", repo="repo", paths=["./-rf"])["staged"][0]["path"] == "-rf"

    def test_a_missing_file_is_said(self, repo, refusal):
        assert "'nope' did not match any files" in refusal("git_add", repo="repo", paths=["nope"])

    def test_an_ignored_file_is_said(self, repo, refusal):
        repo.write(".gitignore", "secret\n")
        repo.write("secret")
        assert "ignored" in refusal("git_add", repo="repo", paths=["secret"])

    @every("arguments", [{}, {"paths": []}, {"paths": ["a"], "all": True}])
    def test_paths_or_all_must_be_chosen(self, repo, refusal, arguments):
        assert refusal("git_add", repo="repo", **arguments) == "pass either paths or all=true"

    def test_a_repository_of_its_own_is_refused(self, repo, make_repo, refusal):
        make_repo("repo/inner").commit()
        assert "is a repository of its own" in refusal("git_add", repo="repo", paths=["inner"])


class TestCommit:
    def test_it_records_what_is_staged(self, repo, call):
        repo.write("a.txt")
        repo.git("add", ".")
        done = call("git_commit", repo="repo", message="first\n\nbody")
        assert (done["hash"], done["subject"]) == (repo.git("rev-parse", "HEAD"), "first")
        assert repo.git("log", "-1", "--format=%B") == "first\n\nbody"

    def test_a_message_like_an_option_is_a_message(self, repo, call):
        repo.write("a.txt")
        repo.git("add", ".")
        call("git_commit", repo="repo", message="--amend # not a comment")
        assert repo.git("log", "--format=%s") == "--amend # not a comment"

    def test_all_stages_tracked_changes(self, repo, call):
        repo.commit("a.txt")
        repo.write("a.txt", "new\n")
        assert call("git_commit", repo="repo", message="m", all=True)["files"][0]["change"] == "modified"

    def test_nothing_staged_is_said(self, repo, refusal):
        repo.commit()
        assert "nothing is staged" in refusal("git_commit", repo="repo", message="m")

    def test_an_empty_repository_with_nothing_staged_is_said(self, repo, refusal):
        assert "nothing is staged" in refusal("git_commit", repo="repo", message="m")

    def test_an_empty_commit_can_be_asked_for(self, repo, call):
        assert call("git_commit", repo="repo", message="m", allow_empty=True)["files"] == []

    def test_a_blank_message_is_refused(self, repo, refusal):
        assert "message must not be empty" in refusal("git_commit", repo="repo", message=" \n")

    def test_a_message_with_a_nul_is_refused(self, repo, refusal):
        assert "refused character '\\x00'" in refusal("git_commit", repo="repo", message="a\0b")

    def test_open_conflicts_are_named(self, conflicted, refusal):
        assert "unresolved conflicts in ['a.txt']" in refusal("git_commit", repo="repo", message="m")

    def test_a_resolved_merge_is_concluded(self, conflicted, call):
        conflicted.write("a.txt", "ours\n")
        conflicted.git("add", "a.txt")
        call("git_commit", repo="repo", message="merged")
        assert len(conflicted.git("log", "-1", "--format=%P").split()) == 2

    def test_a_missing_identity_is_said(self, repo, refusal, root):
        (root.parent / "home" / ".gitconfig").write_text("")
        repo.write("a.txt")
        repo.git("add", ".")
        assert "user.name" in refusal("git_commit", repo="repo", message="m")

    def test_a_detached_head_commits_without_a_branch(self, repo, call):
        repo.commit()
        repo.git("checkout", "-q", "--detach")
        assert call("git_commit", repo="repo", message="m", allow_empty=True)["branch"] is None


class TestStash:
    def test_push_sets_changes_aside_and_pop_brings_them_back(self, repo, call):
        repo.commit("a.txt", "old\n")
        path = repo.write("a.txt", "new\n")
        pushed = call("git_stash", repo="repo", action="push", message="wip")
        assert (path.read_text(), pushed["entries"][0]["message"]) == ("old\n", "On main: wip")
        popped = call("git_stash", repo="repo", action="pop")
        assert (path.read_text(), popped["entries"]) == ("new\n", [])

    def test_untracked_files_go_along_when_asked(self, repo, call):
        repo.commit()
        path = repo.write("new.txt")
        call("git_stash", repo="repo", action="push", include_untracked=True)
        gone = not path.exists()
        call("git_stash", repo="repo", action="pop")
        assert (gone, path.exists()) == (True, True)

    def test_nothing_to_stash_changes_nothing(self, repo, call):
        repo.commit()
        assert call("git_stash", repo="repo", action="push")["changed"] is False

    def test_an_empty_repository_cannot_stash(self, repo, refusal):
        assert "no commits yet" in refusal("git_stash", repo="repo", action="push")

    def test_an_unknown_index_is_said(self, repo, refusal):
        repo.commit()
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
    def test_an_empty_repository_has_only_a_current_name(self, repo, call):
        branches = call("git_branches", repo="repo")
        assert (branches["current"], branches["local"]) == ("main", [])

    def test_local_branches_are_listed_with_their_tips(self, repo, call):
        oid = repo.commit(message="subject")
        repo.git("branch", "feature/x")
        local = call("git_branches", repo="repo", scope="local")["local"]
        assert {b["name"]: (b["hash"], b["subject"]) for b in local} == {
            "main": (oid, "subject"),
            "feature/x": (oid, "subject"),
        }

    def test_too_many_are_cut_and_say_so(self, repo, call):
        repo.commit()
        repo.git("branch", "b")
        branches = call("git_branches", repo="repo", max_count=1)
        assert (len(branches["local"]), branches["truncated"]) == (1, True)

    def test_a_bare_repository_lists_its_branches(self, repo, make_repo, call):
        repo.commit()
        bare = make_repo("b.git", bare=True)
        bare.git("fetch", "-q", str(repo.path), "main:main")
        assert [b["name"] for b in call("git_branches", repo="b.git")["local"]] == ["main"]


class TestCheckout:
    def test_it_switches_to_a_branch(self, repo, call):
        repo.commit()
        repo.git("branch", "other")
        assert call("git_checkout", repo="repo", revision="other")["branch"] == "other"

    def test_a_branch_wins_over_a_tag_and_a_file_of_its_name(self, repo, call):
        repo.commit("same")
        repo.git("branch", "same")
        repo.git("tag", "same")
        assert call("git_checkout", repo="repo", revision="same")["branch"] == "same"

    def test_a_commit_detaches(self, repo, call):
        oid = repo.commit()
        assert call("git_checkout", repo="repo", revision=oid) == {"branch": None, "head": oid}

    def test_create_makes_the_branch_where_asked(self, repo, call):
        first = repo.commit()
        repo.commit(text="x")
        head = call("git_checkout", repo="repo", revision="new", create=True, start="HEAD~1")
        assert head == {"branch": "new", "head": first}

    def test_create_in_an_empty_repository_renames_the_unborn_branch(self, repo, call):
        assert call("git_checkout", repo="repo", revision="new", create=True) == {
            "branch": "new",
            "head": None,
        }

    def test_an_existing_branch_is_not_created_again(self, repo, refusal):
        repo.commit()
        assert "branch exists already" in refusal("git_checkout", repo="repo", revision="main", create=True)

    def test_a_name_git_does_not_allow_is_said(self, repo, refusal):
        repo.commit()
        for name in ("a..b", "a b", "HEAD", "a.lock", "@{-1}", "a~1"):
            assert "not a branch name" in refusal("git_checkout", repo="repo", revision=name, create=True)

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

    def test_a_bare_repository_has_nothing_to_check_out(self, make_repo, refusal):
        make_repo("b.git", bare=True)
        assert "has no working tree" in refusal("git_checkout", repo="b.git", revision="main")
