"""`clone_repo` and `git_push` against repositories on this disk."""

from __future__ import annotations

import pytest


@pytest.fixture
def upstream(repo, make_repo):
    """A bare repository `up.git` with one commit, the `origin` of `repo`."""
    bare = make_repo("up.git", bare=True)
    repo.commit(message="first")
    repo.git("remote", "add", "origin", "../up.git")
    repo.git("push", "-q", "-u", "origin", "main")
    return bare


class TestClone:
    def test_it_makes_a_working_copy_named_after_the_source(self, upstream, repo, root, call):
        cloned = call("clone_repo", url="up.git")
        assert cloned == {"path": "up", "branch": "main", "head": repo.git("rev-parse", "HEAD")}
        assert (root / "up" / "a.txt").read_text() == "text\n"

    def test_a_file_url_inside_the_root_works(self, upstream, root, call):
        assert call("clone_repo", url=f"file://{root}/up.git", path="copy")["path"] == "copy"

    def test_an_absolute_path_inside_the_root_works(self, upstream, root, call):
        assert call("clone_repo", url=str(root / "up.git"), path=str(root / "copy"))["path"] == "copy"

    def test_a_working_tree_is_a_source_too(self, upstream, call):
        assert call("clone_repo", url="repo", path="copy")["branch"] == "main"

    def test_depth_makes_it_shallow(self, upstream, repo, root, call):
        repo.commit(text="x")
        call("clone_repo", url="repo", path="copy", depth=1)
        assert (root / "copy" / ".git" / "shallow").exists()

    def test_a_branch_can_be_chosen(self, upstream, repo, call):
        repo.git("branch", "feature")
        assert call("clone_repo", url="repo", path="copy", branch="feature")["branch"] == "feature"

    def test_an_unknown_branch_is_said_and_nothing_is_left(self, upstream, root, refusal):
        assert "Remote branch nope not found" in refusal("clone_repo", url="repo", path="copy", branch="nope")
        assert not (root / "copy").exists()

    def test_an_empty_repository_can_be_cloned(self, make_repo, call):
        make_repo("empty.git", bare=True)
        assert call("clone_repo", url="empty.git")["head"] is None

    def test_a_full_folder_is_refused(self, upstream, refusal):
        assert "not an empty folder" in refusal("clone_repo", url="up.git", path="repo")

    def test_a_missing_parent_is_refused(self, upstream, refusal):
        assert "parent folder does not exist" in refusal("clone_repo", url="up.git", path="a/b")

    def test_no_hooks_come_from_a_template(self, upstream, root, call):
        call("clone_repo", url="up.git", path="copy")
        assert not (root / "copy" / ".git" / "hooks").exists()

    def test_a_source_that_is_no_repository_is_said(self, root, refusal):
        (root / "plain").mkdir()
        assert refusal("clone_repo", url="plain", path="copy").startswith("not the top of a git repository")


class TestPush:
    def test_new_commits_reach_the_remote(self, upstream, repo, call):
        oid = repo.commit(text="x")
        assert call("git_push", repo="repo")["outcome"] == "updated"
        assert upstream.git("rev-parse", "main") == oid

    def test_the_tracking_branch_moves_along(self, upstream, repo, call):
        oid = repo.commit(text="x")
        call("git_push", repo="repo")
        assert repo.git("rev-parse", "origin/main") == oid

    def test_nothing_new_is_up_to_date(self, upstream, call):
        assert call("git_push", repo="repo")["outcome"] == "up_to_date"

    def test_a_new_branch_is_created_and_tracked(self, upstream, repo, call):
        repo.git("checkout", "-q", "-b", "new")
        pushed = call("git_push", repo="repo", set_upstream=True)
        assert (pushed["outcome"], repo.git("rev-parse", "--abbrev-ref", "@{u}")) == ("created", "origin/new")

    def test_a_diverged_branch_is_refused(self, upstream, repo, refusal):
        repo.git("commit", "-q", "--amend", "-m", "other")
        assert "non-fast-forward" in refusal("git_push", repo="repo")

    def test_a_lease_overwrites_what_was_last_seen(self, upstream, repo, call):
        repo.git("commit", "-q", "--amend", "-m", "other")
        assert call("git_push", repo="repo", force_with_lease=True)["outcome"] == "forced"

    def test_a_lease_does_not_overwrite_what_was_not_seen(self, upstream, repo, call, refusal):
        call("clone_repo", url="up.git", path="copy")
        call("git_commit", repo="copy", message="theirs", allow_empty=True)
        call("git_push", repo="copy")
        repo.git("commit", "-q", "--amend", "-m", "other")
        assert "stale info" in refusal("git_push", repo="repo", force_with_lease=True)

    def test_a_detached_head_needs_a_branch(self, upstream, repo, refusal):
        repo.git("checkout", "-q", "--detach")
        assert "HEAD is detached" in refusal("git_push", repo="repo")

    def test_an_unknown_remote_names_the_nearest(self, upstream, refusal):
        assert refusal("git_push", repo="repo", remote="orign") == "no such remote: 'orign'; did you mean 'origin'?"

    def test_an_unknown_branch_is_said(self, upstream, refusal):
        assert "no such local branch" in refusal("git_push", repo="repo", branch="nope")

    def test_a_url_is_no_remote(self, upstream, refusal):
        assert "no such remote" in refusal("git_push", repo="repo", remote="../up.git")

    def test_a_checked_out_branch_of_a_working_tree_is_refused(self, upstream, repo, make_repo, refusal):
        make_repo("other").commit()
        repo.git("remote", "add", "other", "../other")
        repo.git("checkout", "-q", "-b", "x")
        make_repo("other").git("checkout", "-q", "-b", "x")
        assert "refused" in refusal("git_push", repo="repo", remote="other")
