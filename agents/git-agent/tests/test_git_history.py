"""`git_log`, `git_show`, `git_diff` and `git_blame` on real histories."""

from __future__ import annotations


class TestRevision:
    def test_is_no_search_by_an_expression_of_gits_own(self, repo, refusal):
        repo.commit(message="add")
        for revision in (":/add", "HEAD^{/add}", "main..HEAD^{/((((a{200}){200}){20}))}"):
            assert "use git_log with grep" in refusal("git_log", repo="repo", revision=revision)


class TestLog:
    def test_an_empty_repository_has_no_commits(self, repo, call):
        assert call("git_log", repo="repo") == {"commits": [], "truncated": False}

    def test_commits_come_newest_first(self, repo, call):
        repo.commit(message="one")
        repo.commit(text="x", message="two")
        assert [c["message"] for c in call("git_log", repo="repo")["commits"]] == ["two", "one"]

    def test_more_commits_than_asked_are_truncated(self, repo, call):
        repo.commit(message="one")
        repo.commit(text="x", message="two")
        log = call("git_log", repo="repo", max_count=1)
        assert (len(log["commits"]), log["truncated"]) == (1, True)

    def test_skip_pages_on(self, repo, call):
        repo.commit(message="one")
        repo.commit(text="x", message="two")
        log = call("git_log", repo="repo", max_count=1, skip=1)
        assert ([c["message"] for c in log["commits"]], log["truncated"]) == (["one"], False)

    def test_a_range_leaves_out_its_start(self, repo, call):
        repo.commit(message="one")
        repo.commit(text="x", message="two")
        log = call("git_log", repo="repo", revision="HEAD~1..HEAD")
        assert [c["message"] for c in log["commits"]] == ["two"]

    def test_paths_narrow_it(self, repo, call):
        repo.commit("a.txt", message="one")
        repo.commit("b.txt", message="two")
        assert [c["message"] for c in call("git_log", repo="repo", paths=["a.txt"])["commits"]] == ["one"]

    def test_paths_are_literal_and_no_patterns(self, repo, call):
        repo.commit("a.txt")
        assert call("git_log", repo="repo", paths=["*.txt"])["commits"] == []

    def test_author_text_is_no_pattern(self, repo, call):
        repo.commit()
        found = [len(call("git_log", repo="repo", author=text)["commits"]) for text in ("ada", "A.a", "--all")]
        assert found == [1, 0, 0]

    def test_a_latin1_message_arrives_as_text(self, repo, call):
        repo.write("a.txt")
        repo.git("add", ".")
        repo.git("-c", "i18n.commitEncoding=ISO-8859-1", "commit", "-q", "-F", "-", data=b"caf\xe9")
        assert call("git_log", repo="repo")["commits"][0]["message"] == "café"

    def test_a_message_in_no_encoding_shows_escaped(self, repo, call):
        tree = repo.git("write-tree")
        author = b"author A\xff <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n"
        raw = b"tree " + tree.encode() + b"\n" + author + b"\nbad \xff\n"
        oid = repo.git("hash-object", "-t", "commit", "-w", "--stdin", data=raw)
        repo.git("update-ref", "HEAD", oid)
        commit = call("git_log", repo="repo")["commits"][0]
        assert (commit["author"], commit["message"]) == ("A\\xff", "bad \\xff")

    def test_an_unknown_revision_names_the_nearest(self, repo, refusal):
        repo.commit()
        repo.git("branch", "feature")
        assert "did you mean 'feature'?" in refusal("git_log", repo="repo", revision="featur")


class TestShow:
    def test_a_commit_comes_with_message_and_patch(self, repo, call):
        repo.commit("a.txt", "hello\n", message="subject\n\nbody")
        shown = call("git_show", repo="repo")
        assert shown["commit"]["message"] == "subject\n\nbody"
        assert "+hello" in shown["patch"]

    def test_a_file_is_shown_as_of_the_commit(self, repo, call):
        repo.commit("d/a.txt", "old\n")
        repo.commit("d/a.txt", "new\n")
        shown = call("git_show", repo="repo", revision="HEAD~1", path="d/a.txt")
        assert (shown["content"], shown["size_bytes"], shown["patch"]) == ("old\n", 4, None)

    def test_a_tag_shows_its_commit(self, repo, call):
        oid = repo.commit()
        repo.git("tag", "-a", "v1", "-m", "release")
        assert call("git_show", repo="repo", revision="v1")["commit"]["hash"] == oid

    def test_a_merge_lists_its_conflict_resolution(self, conflicted, call):
        conflicted.commit("a.txt", "both\n", "merge")
        shown = call("git_show", repo="repo")
        assert len(shown["commit"]["parents"]) == 2
        assert "both" in shown["patch"]

    def test_a_binary_file_has_no_content(self, repo, call):
        repo.commit("a.bin", b"\0\1\2")
        shown = call("git_show", repo="repo", path="a.bin")
        assert (shown["content"], shown["binary"], shown["size_bytes"]) == (None, True, 3)

    def test_a_long_file_is_cut_at_a_line(self, repo, call):
        repo.commit("a.txt", "0123456789\n" * 1000)
        shown = call("git_show", repo="repo", path="a.txt", max_bytes=1000)
        assert (len(shown["content"]), shown["truncated"]) == (990, True)

    def test_a_file_of_just_that_length_is_whole(self, repo, call):
        repo.commit("a.txt", "x" * 1000)
        shown = call("git_show", repo="repo", path="a.txt", max_bytes=1000)
        assert (len(shown["content"]), shown["truncated"]) == (1000, False)

    def test_what_is_no_file_is_said(self, repo, refusal):
        repo.commit("d/a.txt")
        for path, what in (("d", "is a folder"), ("nope", "does not exist")):
            assert f"path {what}" in refusal("git_show", repo="repo", path=path)

    def test_an_empty_repository_has_nothing_to_show(self, repo, refusal):
        assert "no commits yet" in refusal("git_show", repo="repo")


class TestDiff:
    def test_unstaged_changes_are_counted_by_line(self, repo, call):
        repo.commit("a.txt", "one\n")
        repo.write("a.txt", "two\nthree\n")
        diff = call("git_diff", repo="repo")
        assert (diff["files"][0]["lines_added"], diff["files"][0]["lines_deleted"]) == (2, 1)

    def test_staged_changes_are_apart(self, repo, call):
        repo.commit("a.txt", "one\n")
        repo.write("a.txt", "two\n")
        repo.git("add", ".")
        sizes = [len(call("git_diff", repo="repo", staged=staged)["files"]) for staged in (False, True)]
        assert sizes == [0, 1]

    def test_an_empty_repository_shows_what_is_staged(self, repo, call):
        repo.write("a.txt")
        repo.git("add", ".")
        assert call("git_diff", repo="repo", staged=True)["files"][0]["change"] == "added"

    def test_two_commits_are_compared(self, repo, call):
        repo.commit("a.txt", "one\n")
        repo.commit("b.txt", "two\n")
        diff = call("git_diff", repo="repo", base="HEAD~1", target="HEAD")
        assert [f["path"] for f in diff["files"]] == ["b.txt"]

    def test_a_rename_is_one_change(self, repo, call):
        repo.commit("a.txt", "one\ntwo\nthree\n")
        repo.git("mv", "a.txt", "b.txt")
        (change,) = call("git_diff", repo="repo", staged=True)["files"]
        assert (change["change"], change["old_path"], change["path"]) == ("renamed", "a.txt", "b.txt")

    def test_a_binary_change_has_no_line_counts(self, repo, call):
        repo.commit("a.bin", b"\0\1")
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

    def test_latin1_text_shows_escaped(self, repo, call):
        repo.commit("a.txt", b"caf\xe9\n")
        assert "+caf\\xe9" in call("git_show", repo="repo")["patch"]

    def test_a_name_with_a_newline_is_reported_whole(self, repo, call):
        repo.commit("a\nb\tc.txt")
        assert call("git_show", repo="repo")["files"][0]["path"] == "a\nb\tc.txt"

    def test_target_alone_is_refused(self, repo, refusal):
        assert "target needs base" in refusal("git_diff", repo="repo", target="HEAD")

    def test_no_changes_are_an_empty_patch(self, repo, call):
        repo.commit()
        assert call("git_diff", repo="repo") == {"files": [], "patch": "", "truncated": False}


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

    def test_a_start_past_the_end_is_said(self, repo, refusal):
        repo.commit("a.txt", "one\n")
        message = refusal("git_blame", repo="repo", path="a.txt", start_line=9)
        assert message == "start_line is past the end of 'a.txt': 9"

    def test_a_missing_file_is_said(self, repo, refusal):
        repo.commit()
        assert refusal("git_blame", repo="repo", path="no.txt") == "not a file at 'HEAD': 'no.txt'"

    def test_a_very_long_line_is_cut(self, repo, call):
        repo.commit("a.txt", "x" * 10_000)
        blame = call("git_blame", repo="repo", path="a.txt")
        assert (len(blame["hunks"][0]["lines"][0]) < 3000, blame["truncated"]) == (True, True)

    def test_a_carriage_return_stays_in_its_line(self, repo, call):
        repo.commit("a.txt", b"one\r\ntwo\x0c\n")
        assert call("git_blame", repo="repo", path="a.txt")["hunks"][0]["lines"] == ["one\r", "two\x0c"]
