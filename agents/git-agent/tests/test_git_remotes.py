"""`clone_repo` and `git_push` against repositories on this disk."""

from __future__ import annotations

import pytest

from tests.every import every


@pytest.fixture
def upstream(repo, make_repo):
    """A bare repository `up.git` with one commit, the `origin` of `repo`."""
    bare = make_repo("up.git", bare=True)
    repo.commit(message="first")
    repo.git("remote", "add", "origin", "../up.git")
    repo.git("push", "-q", "-u", "origin", "main")
    return bare


class TestClone:
    @every(
        ("url", "arguments", "path"),
        [
            ("up.git", {}, "up"),
            ("file://{root}/up.git", {"path": "by-url"}, "by-url"),
            ("{root}/up.git", {"path": "{root}/by-path"}, "by-path"),
            ("repo", {"path": "of-tree"}, "of-tree"),
        ],
    )
    def test_it_makes_a_working_copy_without_hooks(self, upstream, repo, root, call, url, arguments, path):
        arguments = {name: value.format(root=root) for name, value in arguments.items()}
        cloned = call("clone_repo", url=url.format(root=root), **arguments)
        assert cloned == {"path": path, "branch": "main", "head": repo.git("rev-parse", "HEAD")}
        assert (root / path / "a.txt").read_text() == "text\n"
        assert not (root / path / ".git" / "hooks").exists()

    def test_depth_makes_it_shallow_and_a_branch_can_be_chosen(self, upstream, repo, root, call):
        repo.git("branch", "feature")
        repo.commit(text="x")
        call("clone_repo", url="repo", path="shallow", depth=1)
        assert (root / "shallow" / ".git" / "shallow").exists()
        assert call("clone_repo", url="repo", path="copy", branch="feature")["branch"] == "feature"
        assert not (root / "copy" / ".git" / "shallow").exists()

    def test_an_unknown_branch_is_said_and_nothing_is_left(self, upstream, root, refusal):
        assert "Remote branch nope not found" in refusal("clone_repo", url="repo", path="copy", branch="nope")
        assert not (root / "copy").exists()

    def test_an_empty_repository_can_be_cloned(self, make_repo, call):
        make_repo("empty.git", bare=True)
        assert call("clone_repo", url="empty.git")["head"] is None

    @every(
        ("url", "path", "told"),
        [
            ("up.git", "repo", "not an empty folder"),
            ("up.git", "a/b", "parent folder does not exist"),
            ("plain", "copy", "not the top of a git repository"),
        ],
    )
    def test_a_full_folder_a_missing_parent_and_a_source_that_is_none_are_refused(
        self, upstream, root, refusal, url, path, told
    ):
        (root / "plain").mkdir(exist_ok=True)
        assert told in refusal("clone_repo", url=url, path=path)


class TestPush:
    def test_new_commits_reach_the_remote_and_its_tracking_branch(self, upstream, repo, call):
        assert call("git_push", repo="repo")["outcome"] == "up_to_date"
        oid = repo.commit(text="x")
        assert call("git_push", repo="repo")["outcome"] == "updated"
        assert upstream.git("rev-parse", "main") == oid
        assert repo.git("rev-parse", "origin/main") == oid

    def test_a_new_branch_is_created_and_tracked(self, upstream, repo, call):
        repo.git("checkout", "-q", "-b", "new")
        pushed = call("git_push", repo="repo", set_upstream=True)
        assert (pushed["outcome"], repo.git("rev-parse", "--abbrev-ref", "@{u}")) == ("created", "origin/new")

    def test_a_diverged_branch_is_refused_unless_a_lease_knows_what_it_overwrites(self, upstream, repo, call, refusal):
        repo.git("commit", "-q", "--amend", "-m", "other")
        assert "non-fast-forward" in refusal("git_push", repo="repo")
        assert call("git_push", repo="repo", force_with_lease=True)["outcome"] == "forced"

    def test_a_lease_does_not_overwrite_what_was_not_seen(self, upstream, repo, call, refusal):
        call("clone_repo", url="up.git", path="copy")
        call("git_commit", repo="copy", message="theirs", allow_empty=True)
        call("git_push", repo="copy")
        repo.git("commit", "-q", "--amend", "-m", "other")
        assert "stale info" in refusal("git_push", repo="repo", force_with_lease=True)

    @every(
        ("arguments", "told"),
        [
            ({}, "HEAD is detached"),
            ({"branch": "nope"}, "no such local branch"),
            ({"branch": "main", "remote": "orign"}, "no such remote: 'orign'; did you mean 'origin'?"),
            ({"branch": "main", "remote": "../up.git"}, "no such remote"),
        ],
    )
    def test_an_unknown_branch_or_remote_is_said(self, upstream, repo, refusal, arguments, told):
        repo.git("checkout", "-q", "--detach")
        assert told in refusal("git_push", repo="repo", **arguments)

    def test_a_checked_out_branch_of_a_working_tree_is_refused(self, upstream, repo, make_repo, refusal):
        make_repo("other").commit()
        repo.git("remote", "add", "other", "../other")
        repo.git("checkout", "-q", "-b", "x")
        make_repo("other").git("checkout", "-q", "-b", "x")
        assert "refused" in refusal("git_push", repo="repo", remote="other")
