"""No call starts a program that a repository or a caller chose, or opens a transport that is not allowed."""

from __future__ import annotations

import os
import stat
import time

import pytest

from git_agent.config_policy import HARMLESS
from tests.every import every

COMMAND_KEYS = [
    "core.fsmonitor",
    "core.hooksPath",
    "core.sshCommand",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "core.attributesFile",
    "core.excludesFile",
    "credential.helper",
    "credential.https://example.org.helper",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "merge.evil.driver",
    "gpg.program",
    "gpg.ssh.defaultKeyCommand",
    "alias.status",
    "include.path",
    "includeIf.gitdir:/.path",
    "url.ext::sh -c id.insteadOf",
    "url./.pushInsteadOf",
    "http.proxy",
    "http.sslVerify",
    "http.https://example.org/.extraHeader",
    "protocol.ext.allow",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "remote.origin.vcs",
    "remote.origin.proxy",
    "submodule.x.update",
    "trailer.x.command",
    "uploadpack.packObjectsHook",
    "sequence.editor",
    "interactive.diffFilter",
    "receive.denyCurrentBranch",
    "lfs.customtransfer.x.path",
    "pager.log",
    "safe.directory",
    "unknown.key",
]
TOOLS = [
    ("git_status", {}),
    ("git_log", {}),
    ("git_diff", {}),
    ("git_show", {}),
    ("git_blame", {"path": "a.txt"}),
    ("git_branches", {}),
    ("git_checkout", {"revision": "other"}),
    ("git_add", {"all": True}),
    ("git_commit", {"message": "m", "all": True}),
    ("git_push", {}),
    ("git_stash", {"action": "push"}),
]


@pytest.fixture
def canary(root):
    """A program that leaves `sung` behind when it is started."""
    script = root / "canary.sh"
    script.write_text(f"#!/bin/sh\ntouch '{root}/sung'\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


@pytest.fixture
def silent(root):
    """Says whether the canary has not sung."""
    return lambda: not (root / "sung").exists()


@pytest.fixture
def busy(repo, make_repo):
    """A repository with something for every tool to do."""
    make_repo("up.git", bare=True)
    repo.commit(".gitattributes", "* diff=evil filter=evil merge=evil\n")
    repo.commit("a.txt", "one\n")
    repo.git("branch", "other")
    repo.git("remote", "add", "origin", "../up.git")
    os.utime(repo.write("a.txt", "two\n"), (1, 1))
    return repo


class TestConfigOfTheRepository:
    @every("key", COMMAND_KEYS)
    def test_that_could_do_harm_is_not_harmless(self, key):
        section, _, rest = key.partition(".")
        within, dot, name = rest.rpartition(".")
        assert not HARMLESS.fullmatch(f"{section.lower()}.{within}{dot}{name.lower()}")

    @every(("tool", "arguments"), TOOLS)
    def test_is_looked_over_by_every_tool(self, busy, canary, refusal, silent, tool, arguments):
        busy.git("config", "core.fsmonitor", str(canary))
        assert "'core.fsmonitor'" in refusal(tool, repo="repo", **arguments)
        assert silent()

    def test_of_one_worktree_or_shared_by_worktrees_is_looked_over(self, make_repo, root, canary, refusal):
        make_repo("one").git("config", "extensions.worktreeConfig", "true")
        make_repo("one").git("config", "--worktree", "core.fsmonitor", str(canary))
        assert "'core.fsmonitor'" in refusal("git_status", repo="one")
        make_repo("shared").commit()
        make_repo("shared").git("worktree", "add", "-q", "-b", "side", str(root / "side"))
        make_repo("shared").git("config", "core.fsmonitor", str(canary))
        assert "'core.fsmonitor'" in refusal("git_status", repo="side")

    def test_in_odd_spelling_is_understood_as_git_does_and_refused_where_git_cannot(self, repo, canary, refusal):
        config = repo.path / ".git" / "config"
        config.write_text(config.read_text() + f'[CoRe] bare=false\n\tFSMONITOR = "{canary}"\n')
        assert "'core.fsmonitor'" in refusal("git_status", repo="repo")
        config.write_text("[core\n")
        assert "bad config" in refusal("git_status", repo="repo")

    def test_that_ordinary_work_leaves_behind_is_accepted(self, busy, call):
        busy.git("push", "-q", "-u", "origin", "main")
        for key, value in {
            "branch.main.description": "x\ny",
            "branch.a.b.vscode-merge-base": "origin/main",
            "remote.origin.gh-resolved": "base",
            "pull.rebase": "true",
            "user.email": "x@example.org",
            "gui.geometry": "1x1",
            "core.autocrlf": "input",
            "lfs.repositoryformatversion": "0",
        }.items():
            busy.git("config", key, value)
        assert call("git_status", repo="repo")["branch"] == "main"

    @every(("tool", "arguments"), TOOLS)
    def test_that_is_trusted_still_starts_no_hook_monitor_pager_or_diff(
        self, busy, canary, call, silent, monkeypatch, tool, arguments
    ):
        monkeypatch.setenv("GIT_AGENT_TRUST_CONFIG", "1")
        for key in (
            *(
                "core.fsmonitor",
                "core.pager",
                "core.editor",
                "core.sshCommand",
                "core.askPass",
                "gpg.program",
            ),
            *("diff.external", "diff.evil.command", "diff.evil.textconv", "credential.helper", "alias.log"),
        ):
            busy.git("config", key, str(canary))
        busy.git("config", "core.hooksPath", str(canary.parent / "hooks"))
        busy.git("config", "commit.gpgSign", "true")
        busy.git("config", "log.showSignature", "true")
        if tool == "git_checkout":
            arguments = {"revision": "new", "create": True}
        (canary.parent / "sung").unlink(missing_ok=True)
        call(tool, repo="repo", **arguments)
        assert silent()


class TestHooks:
    @every(
        ("tool", "arguments"),
        [
            ("git_commit", {"message": "m", "all": True}),
            ("git_checkout", {"revision": "new", "create": True}),
            ("git_push", {}),
            ("git_stash", {"action": "push"}),
            ("git_add", {"all": True}),
            ("git_status", {}),
        ],
    )
    def test_of_the_repository_do_not_run(self, busy, canary, call, silent, tool, arguments):
        hooks = busy.path / ".git" / "hooks"
        hooks.mkdir(exist_ok=True)
        for name in (
            *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "pre-push"),
            *("reference-transaction", "post-index-change", "fsmonitor-watchman", "post-rewrite"),
        ):
            (hooks / name).write_text(canary.read_text())
            (hooks / name).chmod(0o755)
        call(tool, repo="repo", **arguments)
        assert silent()

    def test_of_the_repository_pushed_to_or_cloned_do_not_run(self, busy, root, canary, call, silent):
        for folder, names in (
            (
                root / "up.git",
                ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "proc-receive"),
            ),
            (busy.path / ".git", ("post-checkout", "reference-transaction")),
        ):
            (folder / "hooks").mkdir(exist_ok=True)
            for name in names:
                (folder / "hooks" / name).write_text(canary.read_text())
                (folder / "hooks" / name).chmod(0o755)
        assert call("git_push", repo="repo")["outcome"] == "created"
        assert silent()
        call("clone_repo", url="repo", path="copy")
        assert silent()

    def test_of_the_operators_own_config_do_not_run(self, busy, root, canary, call, silent):
        hooks = root.parent / "home" / "hooks"
        hooks.mkdir()
        (hooks / "post-commit").write_text(canary.read_text())
        (hooks / "post-commit").chmod(0o755)
        with (root.parent / "home" / ".gitconfig").open("a") as file:
            file.write(f"[core]\n\thooksPath = {hooks}\n")
        call("git_commit", repo="repo", message="m", all=True)
        assert silent()


class TestOtherRepositories:
    def test_pushed_to_or_cloned_are_looked_over(self, busy, make_repo, canary, refusal, silent):
        make_repo("up.git", bare=True).git("config", "core.alternateRefsCommand", str(canary))
        assert "'core.alternaterefscommand'" in refusal("git_push", repo="repo")
        busy.git("config", "core.fsmonitor", str(canary))
        assert "'core.fsmonitor'" in refusal("clone_repo", url="repo", path="copy")
        assert silent()

    def test_used_as_submodules_are_looked_over(self, busy, make_repo, canary, refusal, silent):
        make_repo("part").commit(".gitattributes", "* filter=evil\n")
        busy.git("submodule", "--quiet", "add", "../part", "part")
        busy.git("commit", "-q", "-m", "part")
        part = busy.path / "part"
        busy.git("-C", "part", "config", "filter.evil.clean", str(canary))
        os.utime(part / ".gitattributes", (time.time() + 5, time.time() + 5))
        for tool, arguments in TOOLS:
            if tool in ("git_status", "git_diff", "git_add", "git_commit", "git_stash", "git_checkout"):
                assert "'filter.evil.clean'" in refusal(tool, repo="repo", **arguments)
                assert silent()

    def test_used_as_submodules_are_not_fetched_by_a_clone_and_must_lie_inside(
        self, busy, make_repo, outside, root, call, refusal
    ):
        make_repo("part").commit()
        busy.git("submodule", "--quiet", "add", "../part", "part")
        assert "part" in [c["path"] for c in call("git_status", repo="repo")["staged"]]
        busy.git("commit", "-q", "-m", "part")
        call("clone_repo", url="repo", path="copy")
        assert list((root / "copy" / "part").iterdir()) == []
        foreign = make_repo(outside / "foreign")
        foreign.commit()
        (busy.path / "part" / ".git").write_text(f"gitdir: {foreign.path}/.git\n")
        assert "its .git file points outside" in refusal("git_status", repo="repo")


class TestOptions:
    @every("value", ["--output=x", "--upload-pack=id", "-"])
    @every(
        ("tool", "name"),
        [
            ("git_log", "revision"),
            ("git_show", "revision"),
            ("git_diff", "base"),
            ("git_checkout", "revision"),
            ("git_push", "branch"),
            ("git_push", "remote"),
            ("clone_repo", "url"),
            ("clone_repo", "path"),
            ("clone_repo", "branch"),
        ],
    )
    def test_in_place_of_names_are_refused(self, repo, refusal, tool, name, value):
        place = {"repo": "repo"} if tool != "clone_repo" else {"url": "repo", "path": "copy"}
        assert "must not start with a dash" in refusal(tool, **{**place, name: value})

    @every(
        ("value", "told"),
        [
            *((value, "must not start with a dash") for value in ("HEAD..--output=x", "--output=x..HEAD", "HEAD...-p")),
            *((value, "") for value in ("HEAD\0", "HEAD\n--all", "a\x07", "\u2028", "", "a\x85")),
        ],
    )
    def test_within_a_range_or_behind_control_characters_are_refused(self, repo, refusal, value, told):
        assert told in refusal("git_log", repo="repo", revision=value)

    def test_in_a_stash_message_are_text(self, busy, call):
        stash = call("git_stash", repo="repo", action="push", message="--all")
        assert stash["entries"][0]["message"] == "On main: --all"


class TestTransports:
    @every(
        "url",
        [
            "ext::sh -c 'touch sung'",
            "ext::sh -c touch% sung",
            "fd::17",
            "fd::17/x",
            "EXT::id",
            "transport-helper::x",
            "file::/etc",
            "::x",
        ],
    )
    def test_by_helpers_are_refused(self, root, refusal, silent, url):
        assert "remote helpers are not allowed" in refusal("clone_repo", url=url, path="copy")
        assert silent()

    @every(
        "url",
        [
            "http://example.org/x.git",
            "git://example.org/x.git",
            "ssh://git@example.org/x.git",
            "git@example.org:x.git",
            "example.org:x.git",
            "ftp://example.org/x.git",
            "ftps://example.org/x",
            "git+ssh://example.org/x",
            "ssh+git://example.org/x",
            "rsync://example.org/x",
            "HTTPS://example.org/x",
            "FILE:///etc",
            "ext://x",
            "c:/windows",
        ],
    )
    def test_that_are_not_allowed_are_refused(self, root, refusal, url):
        message = refusal("clone_repo", url=url, path="copy")
        assert "is not allowed" in message
        assert "allowed: https, and local paths" in message

    @every(
        "url",
        [
            "https://-oProxyCommand=id/x",
            "https://exa mple.org/x",
            "https://example.org",
            "https:///x",
            "https://user:pass@example.org/x",
            "https://example.org:port/x",
            "https://example.org\\@evil.org/x",
            "https://a%2eb/x",
            "https://-x@example.org/x",
            "https://[::1/x",
        ],
    )
    def test_with_odd_urls_are_refused(self, root, refusal, url):
        message = refusal("clone_repo", url=url, path="copy")
        assert message.startswith(("malformed", "url "))
        assert "pass@" not in message

    @every(
        "url",
        ["ssh://-oProxyCommand=id/x", "ssh://-x@h/x", "-oProxyCommand=id:x", "-x@h:p", "h:-p", "a b:x", "h:"],
    )
    def test_by_ssh_take_no_options(self, root, refusal, monkeypatch, url):
        monkeypatch.setenv("GIT_AGENT_PROTOCOLS", "https:ssh")
        message = refusal("clone_repo", url=url, path="copy")
        assert message.startswith(("malformed", "url "))

    def test_by_ssh_never_ask(self, root, refusal, monkeypatch, tmp_path):
        bin_dir = tmp_path / "bin"
        bin_dir.mkdir()
        (bin_dir / "ssh").write_text(f'#!/bin/sh\necho "$@" > {root}/said\nexit 255\n')
        (bin_dir / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{bin_dir}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("GIT_AGENT_PROTOCOLS", "https:ssh")
        monkeypatch.setenv("GIT_SSH_COMMAND", "false")
        refusal("clone_repo", url="git@example.org:x.git", path="copy")
        said = (root / "said").read_text()
        assert "-oBatchMode=yes" in said
        assert "git@example.org" in said

    def test_to_hosts_not_listed_are_refused(self, root, refusal, monkeypatch):
        monkeypatch.setenv("GIT_AGENT_HOSTS", "github.com:*.example.org")
        message = refusal("clone_repo", url="https://evil.org/x.git", path="copy")
        assert message == "host is not allowed: 'evil.org'; allowed: github.com, *.example.org"

    def test_of_a_remote_are_checked_before_a_push_as_the_operators_config_rewrites_them(
        self, repo, root, refusal, silent
    ):
        repo.commit()
        repo.git("remote", "add", "origin", "ext::sh -c touch% sung")
        assert "remote helpers are not allowed" in refusal("git_push", repo="repo")
        repo.git("remote", "set-url", "origin", "https://example.org/x.git")
        with (root.parent / "home" / ".gitconfig").open("a") as file:
            file.write('[url "ext::id "]\n\tinsteadOf = https://example.org/\n')
        assert "remote helpers are not allowed" in refusal("git_push", repo="repo")
        assert silent()

    def test_rewritten_by_the_operators_config_stay_what_was_checked(self, root, canary, refusal, silent):
        with (root.parent / "home" / ".gitconfig").open("a") as file:
            file.write(f'[url "ext::{canary} "]\n\tinsteadOf = https://example.org/\n')
        assert "transport 'ext' not allowed" in refusal("clone_repo", url="https://example.org/x", path="copy")
        assert silent()

    def test_are_not_replaced_by_a_folder_named_like_the_url(self, root, make_repo, refusal):
        make_repo("https:/127.0.0.1:1/x.git").commit()
        assert "127.0.0.1" in refusal("clone_repo", url="https://127.0.0.1:1/x.git", path="copy")
        assert not (root / "copy").exists()

    def test_do_not_fetch_missing_objects_for_a_reader(self, repo, make_repo, root, canary, refusal, silent):
        repo.commit("a.txt", "one\n")
        repo.git("config", "uploadpack.allowFilter", "true")
        repo.git("clone", "-q", "--bare", "--filter=blob:none", f"file://{repo.path}", str(root / "part.git"))
        assert refusal("git_show", repo="part.git", path="a.txt")

    def test_errors_do_not_repeat_credentials(self, repo, refusal, monkeypatch):
        repo.commit()
        repo.git("remote", "add", "origin", "https://user:hunter2@127.0.0.1:1/x.git")
        message = refusal("git_push", repo="repo")
        assert "127.0.0.1" in message
        assert "hunter2" not in message


class TestTheEnvironment:
    def test_of_the_server_cannot_redirect_git(self, repo, make_repo, call, root, monkeypatch):
        other = make_repo("other")
        other.commit(message="other")
        repo.commit(message="mine")
        monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
        monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
        monkeypatch.setenv("GIT_TRACE", str(root / "sung"))
        monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
        assert call("git_log", repo="repo")["commits"][0]["message"] == "mine"
        assert not (root / "sung").exists()

    def test_without_git_says_so_and_finds_none_in_a_repository(
        self, repo, refusal, monkeypatch, tmp_path, canary, silent
    ):
        (repo.path / "git").write_bytes(canary.read_bytes())
        (repo.path / "git").chmod(0o755)
        monkeypatch.chdir(repo.path)
        for folder in (str(tmp_path), "."):
            monkeypatch.setenv("PATH", folder)
            assert "git was not found" in refusal("git_status", repo="repo"), folder
        assert silent()

    def test_with_a_git_that_hangs_runs_out_of_time(self, repo, refusal, monkeypatch, tmp_path):
        (tmp_path / "git").write_text("#!/bin/sh\nexec sleep 600\n")
        (tmp_path / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("GIT_AGENT_TIMEOUT_S", "0.2")
        assert refusal("git_status", repo="repo") == "git config took longer than 0.2 s and was stopped"

    @every(
        ("name", "value"),
        [
            ("GIT_AGENT_TIMEOUT_S", "soon"),
            ("GIT_AGENT_TIMEOUT_S", "nan"),
            ("GIT_AGENT_TIMEOUT_S", "-1"),
            ("GIT_AGENT_TRUST_CONFIG", "maybe"),
            ("GIT_AGENT_PROTOCOLS", "https:ext"),
            ("GIT_AGENT_ROOTS", "/no/such/folder"),
        ],
    )
    def test_with_a_malformed_setting_is_refused(self, repo, refusal, monkeypatch, name, value):
        monkeypatch.setenv(name, value)
        assert name in refusal("git_status", repo="repo")
