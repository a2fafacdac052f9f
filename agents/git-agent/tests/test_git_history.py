"""`git_log`, `git_show`, `git_diff` and `git_blame` on real histories."""

from __future__ import annotations

from tests.every import every


class TestRevision:
    def test_is_no_search_by_an_expression_of_gits_own(self, repo, refusal):
        repo.commit(message="add")
        for revision in (":/add", "HEAD^{/add}", "main..HEAD^{/((((a{200}){200}){20}))}"):
            assert "use git_log with grep" in refusal("git_log", repo="repo", revision=revision)


class TestLog:
    def test_an_empty_repository_has_no_commits_and_nothing_to_show(self, repo, call, refusal):
        assert call("git_log", repo="repo") == {"commits": [], "truncated": False}
        assert "no commits yet" in refusal("git_show", repo="repo")

    @every(
        ("arguments", "messages", "truncated"),
        [
            ({}, ["two", "one"], False),
            ({"max_count": 1}, ["two"], True),
            ({"max_count": 1, "skip": 1}, ["one"], False),
            ({"revision": "HEAD~1..HEAD"}, ["two"], False),
        ],
    )
    def test_commits_come_newest_first_by_page_or_range(self, repo, call, arguments, messages, truncated):
        if not (repo.path / "a.txt").exists():
            repo.commit(message="one")
            repo.commit(text="x", message="two")
        log = call("git_log", repo="repo", **arguments)
        assert ([c["message"] for c in log["commits"]], log["truncated"]) == (messages, truncated)

    def test_paths_narrow_it_and_are_no_patterns(self, repo, call):
        repo.commit("a.txt", message="one")
        repo.commit("b.txt", message="two")
        assert [c["message"] for c in call("git_log", repo="repo", paths=["a.txt"])["commits"]] == ["one"]
        assert call("git_log", repo="repo", paths=["*.txt"])["commits"] == []

    def test_author_text_is_no_pattern(self, repo, call):
        repo.commit()
        found = [len(call("git_log", repo="repo", author=text)["commits"]) for text in ("ada", "A.a", "--all")]
        assert found == [1, 0, 0]

    def test_a_message_in_latin1_arrives_as_text_and_one_in_no_encoding_escaped(self, repo, call):
        repo.write("a.txt")
        repo.git("add", ".")
        repo.git("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "-F", "-", data=b"caf\xe9")
        assert call("git_log", repo="repo")["commits"][0]["message"] == "café"
        tree = repo.git("write-tree")
        author = b"author A\xff <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n"
        raw = b"tree " + tree.encode() + b"\n" + author + b"\nbad \xff\n"
        repo.git("update-ref", "HEAD", repo.git("hash-object", "-t", "commit", "-w", "--stdin", data=raw))
        commit = call("git_log", repo="repo")["commits"][0]
        assert (commit["author"], commit["message"]) == ("A\\xff", "bad \\xff")

    def test_an_unknown_revision_names_the_nearest(self, repo, refusal):
        repo.commit()
        repo.git("branch", "feature")
        assert "did you mean 'feature'?" in refusal("git_log", repo="repo", revision="featur")


class TestShow:
    def test_a_commit_or_a_tag_of_it_comes_with_message_and_patch(self, repo, call):
        oid = repo.commit("a.txt", "hello\n", message="subject\n\nbody")
        repo.git("tag", "-a", "v1", "-m", "release")
        for shown in (call("git_show", repo="repo"), call("git_show", repo="repo", revision="v1")):
            assert (shown["commit"]["hash"], shown["commit"]["message"]) == (oid, "subject\n\nbody")
            assert "+hello" in shown["patch"]

    def test_a_file_is_shown_as_of_the_commit_and_a_binary_one_without_content(self, repo, call, refusal):
        repo.commit("d/a.txt", "old\n")
        repo.commit("d/a.txt", "new\n")
        shown = call("git_show", repo="repo", revision="HEAD~1", path="d/a.txt")
        assert (shown["content"], shown["size_bytes"], shown["patch"]) == ("old\n", 4, None)
        repo.commit("a.bin", b"\0\1\2")
        shown = call("git_show", repo="repo", path="a.bin")
        assert (shown["content"], shown["binary"], shown["size_bytes"]) == (None, True, 3)
        for path, what in (("d", "is a folder"), ("nope", "does not exist")):
            assert f"path {what}" in refusal("git_show", repo="repo", path=path)

    def test_a_merge_lists_its_conflict_resolution(self, conflicted, call):
        conflicted.commit("a.txt", "both\n", "merge")
        shown = call("git_show", repo="repo")
        assert len(shown["commit"]["parents"]) == 2
        assert "both" in shown["patch"]

    def test_a_file_is_cut_at_a_line_when_longer_than_asked(self, repo, call):
        repo.commit("a.txt", "0123456789\n" * 100)
        for max_bytes, n_bytes, truncated in ((1000, 990, True), (1100, 1100, False)):
            shown = call("git_show", repo="repo", path="a.txt", max_bytes=max_bytes)
            assert (len(shown["content"]), shown["truncated"]) == (n_bytes, truncated), max_bytes


class TestDiff:
    def test_unstaged_and_staged_changes_are_apart_and_counted_by_line(self, repo, call):
        repo.commit("a.txt", "one\n")
        nothing = {"files": [], "patch": "", "truncated": False}
        assert call("git_diff", repo="repo") == nothing
        repo.write("a.txt", "two\nthree\n")
        assert call("git_diff", repo="repo", staged=True) == nothing
        (file,) = call("git_diff", repo="repo")["files"]
        assert (file["lines_added"], file["lines_deleted"]) == (2, 1)
        repo.git("add", ".")
        assert call("git_diff", repo="repo") == nothing
        assert call("git_diff", repo="repo", staged=True)["files"] == [file]

    def test_two_commits_are_compared_and_target_alone_is_refused(self, repo, call, refusal):
        repo.commit("a.txt", "one\n")
        repo.commit("b.txt", "two\n")
        diff = call("git_diff", repo="repo", base="HEAD~1", target="HEAD")
        assert [f["path"] for f in diff["files"]] == ["b.txt"]
        assert "target needs base" in refusal("git_diff", repo="repo", target="HEAD")

    def test_a_rename_is_one_change_and_a_binary_one_has_no_line_counts(self, repo, call):
        repo.commit("a.txt", "one\ntwo\nthree\n")
        repo.commit("a.bin", b"\0\1")
        repo.git("mv", "a.txt", "b.txt")
        (change,) = call("git_diff", repo="repo", staged=True)["files"]
        assert (change["change"], change["old_path"], change["path"]) == ("renamed", "a.txt", "b.txt")
        repo.write("a.bin", b"\0\2")
        diff = call("git_diff", repo="repo")
        assert (diff["files"][0]["lines_added"], "Binary files" in diff["patch"]) == (None, True)

    def test_a_huge_patch_is_cut_at_a_line_and_says_so(self, repo, call):
        repo.commit("a.txt", "")
        repo.write("a.txt", "0123456789\n" * 200_000)
        diff = call("git_diff", repo="repo", max_bytes=5000)
        assert (len(diff["patch"]) <= 5000, diff["patch"].endswith("\n"), diff["truncated"]) == (
            True,
            True,
            True,
        )

    def test_latin1_text_shows_escaped_and_a_name_with_a_newline_whole(self, repo, call):
        repo.commit("a\nb\tc.txt", b"caf\xe9\n")
        shown = call("git_show", repo="repo")
        assert shown["files"][0]["path"] == "a\nb\tc.txt"
        assert "+caf\\xe9" in shown["patch"]


class TestBlame:
    def test_runs_of_lines_name_their_commits(self, repo, call):
        first = repo.commit("a.txt", "one\ntwo\n", "first")
        second = repo.commit("a.txt", "one\ntwo\nthree\n", "second")
        hunks = call("git_blame", repo="repo", path="a.txt")["hunks"]
        assert [(h["hash"], h["start_line"], h["lines"]) for h in hunks] == [
            (first, 1, ["one", "two"]),
            (second, 3, ["three"]),
        ]

    def test_a_window_of_lines_is_truncated(self, repo, call):
        repo.commit("a.txt", "".join(f"{n}\n" for n in range(10)))
        blame = call("git_blame", repo="repo", path="a.txt", start_line=3, max_lines=2)
        assert ([h["lines"] for h in blame["hunks"]], blame["truncated"]) == ([["2", "3"]], True)

    def test_a_start_past_the_end_and_a_missing_file_are_said(self, repo, refusal):
        repo.commit("a.txt", "one\n")
        message = refusal("git_blame", repo="repo", path="a.txt", start_line=9)
        assert message == "start_line is past the end of 'a.txt': 9"
        assert refusal("git_blame", repo="repo", path="no.txt") == "not a file at 'HEAD': 'no.txt'"

    def test_a_very_long_line_is_cut_and_a_carriage_return_stays_in_its_line(self, repo, call):
        repo.commit("a.txt", b"one\r\ntwo\x0c\n" + b"x" * 10_000)
        blame = call("git_blame", repo="repo", path="a.txt")
        *short, long = blame["hunks"][0]["lines"]
        assert (short, len(long) < 3000, blame["truncated"]) == (["one\r", "two\x0c"], True, True)
