"""Nothing outside the allowed roots is read, written or told about."""

from __future__ import annotations

import hashlib
import os
import shutil

import pytest
from fastmcp.exceptions import ToolError

from git_agent.text import checked_path
from tests.every import every

READS = [
    ("git_status", {}),
    ("git_log", {}),
    ("git_diff", {}),
    ("git_show", {}),
    ("git_branches", {}),
    ("git_blame", {"path": "a.txt"}),
]
WRITES = [
    ("git_checkout", {"revision": "main"}),
    ("git_add", {"all": True}),
    ("git_commit", {"message": "m", "allow_empty": True}),
    ("git_push", {}),
    ("git_stash", {"action": "push"}),
]
every_tool = every(("tool", "arguments"), READS + WRITES)


@pytest.fixture
def foreign(make_repo, outside):
    """A repository outside the root, with a commit."""
    repo = make_repo(outside / "foreign")
    repo.commit("a.txt", "foreign secret\n", "foreign message")
    return repo


class TestPathsOfRepositories:
    @every_tool
    def test_leading_out_by_a_link_are_refused_by_every_tool(self, root, foreign, refusal, tool, arguments):
        if not (root / "link").exists():
            (root / "link").symlink_to(foreign.path)
        assert "outside the allowed roots" in refusal(tool, repo="link", **arguments)

    @every("path", ["../outside/foreign", "repo/../../outside/foreign", "/", "..", "{root}2"])
    def test_leading_out_or_that_only_start_like_a_root_are_refused(
        self, root, make_repo, repo, foreign, refusal, path
    ):
        make_repo(root.parent / "root2")
        assert "outside the allowed roots" in refusal("git_log", repo=path.format(root=root))

    def test_outside_answer_alike_whether_they_exist_or_not(self, root, foreign, refusal):
        there = refusal("git_status", repo=str(foreign.path)).replace(str(foreign.path), "X")
        nowhere = refusal("git_status", repo="/no/such").replace("/no/such", "X")
        assert there == nowhere

    @every("path", ["-C", "--git-dir=/x", "a\0b", "a\nb", "a\x1b[0m", " ", "x" * 4097])
    def test_that_are_no_clean_names_are_refused(self, root, refusal, path):
        assert refusal("git_status", repo=path)

    def test_are_not_searched_upwards_nor_above_the_root(self, root, repo, make_repo, refusal):
        repo.commit("dir/a.txt")
        message = refusal("git_status", repo="repo/dir")
        assert message == "not the top of a git repository: 'repo/dir'; the repository above it is 'repo'"
        make_repo(root.parent).commit()
        assert refusal("git_status", repo=".").startswith("not the top of a git repository: '.'; did you")

    def test_that_are_nearly_right_name_the_neighbour(self, repo, refusal):
        assert refusal("git_status", repo="rep") == "no such folder: 'rep'; did you mean 'repo'?"

    def test_may_lie_in_a_second_root_one_that_is_a_link_or_the_working_folder(
        self, root, make_repo, repo, call, monkeypatch
    ):
        make_repo(root.parent / "second" / "here")
        (root.parent / "alias").symlink_to(root)
        monkeypatch.setenv(
            "GIT_AGENT_ROOTS", os.pathsep.join([str(root.parent / "alias"), str(root.parent / "second")])
        )
        for name in ("repo", "here"):
            assert call("git_status", repo=name)["branch"] == "main", name
        monkeypatch.delenv("GIT_AGENT_ROOTS")
        monkeypatch.chdir(repo.path)
        assert call("git_status")["branch"] == "main"


class TestPathsOfFiles:
    @every(
        "path",
        ["/etc/passwd", "../x", "d/../../x", "-x", "a\0", "a\nb", "", ".git/config", "d/.GIT/hooks/x", "\ud800"],
    )
    def test_leading_elsewhere_are_refused(self, path):
        with pytest.raises(ToolError, match=r"^path "):
            checked_path(path)

    @every(
        ("tool", "arguments"),
        [
            ("git_diff", {"paths": ["../../outside/x", "../../outside/y"]}),
            ("git_log", {"paths": ["../x"]}),
            ("git_add", {"paths": ["../x"]}),
            ("git_blame", {"path": "../x"}),
            ("git_show", {"path": "../x"}),
        ],
    )
    def test_are_checked_by_every_tool(self, repo, refusal, tool, arguments):
        message = refusal(tool, repo="repo", **arguments)
        assert message.startswith("path ")
        assert "must not contain '..'" in message

    def test_that_lead_through_a_link_are_not_followed_and_links_shown_as_such(self, repo, outside, refusal, call):
        path = repo.path / "a.txt"
        repo.commit("a.txt")
        (outside / "x").write_text("secret")
        (repo.path / "link").symlink_to(outside)
        assert "beyond a symbolic link" in refusal("git_add", repo="repo", paths=["link/x"])
        path.unlink()
        path.symlink_to(outside / "x")
        patch = call("git_diff", repo="repo")["patch"]
        assert "outside/x" in patch
        assert "secret" not in patch


class TestPartsOfARepository:
    def refused(self, refusal, outside):
        message = refusal("git_log", repo="repo")
        assert str(outside) not in message
        assert "foreign" not in message
        return message

    def test_a_git_file_link_or_worktree_pointing_out_is_refused(self, root, foreign, refusal, outside):
        repo = root / "repo"
        repo.mkdir()
        (repo / ".git").write_text(f"gitdir: {foreign.path}/.git\n")
        assert self.refused(refusal, outside) == "repository refused: its .git file points outside the allowed roots"
        (repo / ".git").unlink()
        (repo / ".git").symlink_to(foreign.path / ".git")
        assert "its .git points outside" in self.refused(refusal, outside)
        (repo / ".git").unlink()
        foreign.git("worktree", "add", "-q", str(repo))
        assert "its .git file points outside" in self.refused(refusal, outside)

    def test_a_worktree_and_alternates_inside_work(self, root, repo, make_repo, call):
        make_repo("shared").commit(message="shared")
        repo.git("fetch", "-q", "../shared", "main:main", "--update-head-ok")
        (repo.path / ".git/objects/info/alternates").write_text("../../../shared/.git/objects\n")
        assert call("git_log", repo="repo")["commits"][0]["message"] == "shared"
        repo.git("worktree", "add", "-q", "-b", "side", str(root / "side"))
        assert call("git_status", repo="side")["branch"] == "side"

    def test_a_commondir_or_gitdir_pointing_out_is_refused(self, repo, foreign, refusal, outside):
        for name in ("commondir", "gitdir"):
            (repo.path / ".git" / name).write_text(f"{foreign.path}/.git\n")
            assert f"its {name} points outside" in self.refused(refusal, outside)
            (repo.path / ".git" / name).unlink()

    @every(
        ("text", "told"),
        [
            ("../../../../outside/foreign/.git/objects\n", "its alternates points outside"),
            ("{root}/../outside/foreign/.git/objects\n", "its alternates points outside"),
            ("# x\n../../../../outside/foreign/.git/objects\n", "its alternates points outside"),
            ('"/etc"\n', "its alternates are malformed"),
        ],
    )
    def test_alternates_pointing_out_or_quoted_are_refused(self, repo, root, foreign, refusal, outside, text, told):
        (repo.path / ".git" / "objects" / "info" / "alternates").write_text(text.format(root=root))
        assert told in self.refused(refusal, outside)

    def test_alternates_of_alternates_pointing_out_are_refused(self, repo, make_repo, foreign, refusal, outside):
        middle = make_repo("middle")
        (repo.path / ".git/objects/info/alternates").write_text(f"{middle.path}/.git/objects\n")
        (middle.path / ".git/objects/info/alternates").write_text(f"{foreign.path}/.git/objects\n")
        assert "its alternates points outside" in self.refused(refusal, outside)

    @every("name", ["objects", "logs/HEAD", "index", "config"])
    def test_a_link_out_of_the_git_folder_is_refused(self, root, make_repo, foreign, refusal, outside, name):
        shutil.rmtree(root / "repo", ignore_errors=True)
        path = make_repo("repo").path / ".git" / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(foreign.path / ".git" / name)
        assert "points outside" in self.refused(refusal, outside)

    def test_a_commit_does_not_write_through_a_link_nor_one_behind_another(self, repo, root, outside, refusal):
        victim = outside / "profile"
        victim.write_text("mine\n")
        decoy = root / "decoy"
        decoy.mkdir()
        (decoy / "HEAD").symlink_to(victim)
        (repo.path / ".git" / "logs").symlink_to(decoy)
        assert "points outside" in refusal("git_commit", repo="repo", message="evil", allow_empty=True)
        (repo.path / ".git" / "logs").unlink()
        (repo.path / ".git" / "COMMIT_EDITMSG").symlink_to(victim)
        assert "points outside" in refusal("git_commit", repo="repo", message="evil", allow_empty=True)
        assert victim.read_text() == "mine\n"

    def test_a_pipe_for_a_git_file_does_not_hang(self, root, refusal):
        (root / "repo").mkdir()
        os.mkfifo(root / "repo" / ".git")
        assert "not a regular file" in refusal("git_status", repo="repo")

    def test_a_working_tree_named_by_its_config_must_be_itself(self, repo, outside, refusal):
        repo.commit()
        repo.git("config", "core.worktree", str(outside))
        assert "'core.worktree' to another folder" in self.refused(refusal, outside)

    def test_a_folder_that_is_both_kinds_or_holds_another_git_folder_is_refused(self, repo, make_repo, refusal):
        both = make_repo("repo2", bare=True).path
        shutil.copytree(repo.path / ".git", both / ".git")
        assert "both a working tree and a bare repository" in refusal("git_log", repo="repo2")
        (repo.path / ".git" / ".git").mkdir()
        assert "holds another one" in refusal("git_log", repo="repo")


def point_index_at(repo, entry: bytes, target: bytes) -> None:
    """Rewrite a path in the index file, and its checksum."""
    assert len(entry) == len(target)
    index = repo.path / ".git" / "index"
    data = index.read_bytes()[:-20].replace(entry, target)
    index.write_bytes(data + hashlib.sha1(data).digest())


class TestIndex:
    def test_an_entry_leading_out_is_refused(self, repo, outside, refusal):
        (outside / "x").write_text("secret\n")
        entry = b"abcdefghijklmno"
        repo.commit(entry.decode(), "base\n")
        for target in (b"../../outside/x", b"dir/../../../xx", b".git/objects/xy"):
            point_index_at(repo, entry, target)
            for tool, arguments in (("git_status", {}), ("git_diff", {}), ("git_add", {"all": True}), WRITES[4]):
                message = refusal(tool, repo="repo", **arguments)
                assert message == "repository refused: its index holds a path outside the working tree"
            entry = target
        assert (outside / "x").read_text() == "secret\n"


class TestDestinationsOfClones:
    @every("path", ["../copy", "/tmp/copy-of-it", "link/copy", "-x", "a\nb", "repo/.git/hooks/x"])
    def test_leading_out_or_into_a_git_folder_are_refused(self, root, repo, outside, refusal, path):
        if not (root / "link").exists():
            repo.commit()
            (root / "link").symlink_to(outside)
        message = refusal("clone_repo", url="repo", path=path)
        assert ".git" not in path or "must not lead into a .git folder" in message
        assert list(outside.iterdir()) == []
        assert not (repo.path / ".git" / "hooks").exists()


class TestSourcesOfClones:
    @every("form", ["{path}", "file://{path}", "../outside/foreign", "file://localhost{path}", "link"])
    def test_outside_are_refused(self, root, foreign, refusal, form):
        if not (root / "link").exists():
            (root / "link").symlink_to(foreign.path)
        refusal("clone_repo", url=form.format(path=foreign.path), path="copy")
        assert not (root / "copy").exists()

    def test_inside_but_bundled_or_borrowing_from_outside_are_refused(self, repo, root, foreign, refusal):
        repo.commit()
        repo.git("bundle", "create", "-q", str(root / "x.bundle"), "main")
        assert "not the top of a git repository" in refusal("clone_repo", url="x.bundle", path="copy")
        (repo.path / ".git/objects/info/alternates").write_text(f"{foreign.path}/.git/objects\n")
        assert "its alternates points outside" in refusal("clone_repo", url="repo", path="copy")
        assert not (root / "copy").exists()


class TestRemotesOfPushes:
    def test_outside_are_refused(self, repo, make_repo, outside, refusal):
        bare = make_repo(outside / "bare.git", bare=True)
        repo.commit()
        repo.git("remote", "add", "origin", "nowhere")
        for url in ("../../outside/bare.git", "{out}/bare.git", "file://{out}/bare.git", "~/x.git"):
            repo.git("remote", "set-url", "origin", url.format(out=outside))
            message = refusal("git_push", repo="repo")
            assert "{out}" in url or str(outside) not in message
            assert bare.git("branch") == ""

    def test_with_several_urls_are_refused(self, repo, make_repo, refusal):
        make_repo("up.git", bare=True)
        repo.commit()
        repo.git("remote", "add", "origin", "../up.git")
        repo.git("config", "--add", "remote.origin.url", "ext::sh -c id")
        assert "exactly one url" in refusal("git_push", repo="repo")
