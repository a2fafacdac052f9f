"""The git command line: how every call of git is hardened, run and explained."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fastmcp.exceptions import ToolError

from git_agent.process import Finished, run_bounded
from git_agent.settings import Settings
from git_agent.text import clipped, decoded

MAX_BYTES = 8 * 1024 * 1024
MAX_ERROR_CHARS = 1500

PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "XDG_CONFIG_HOME", "SSH_AUTH_SOCK", "SYSTEMROOT"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
    *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
    *("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"),
)
"""The only variables of the server's environment that git sees."""

SSH_COMMAND = "ssh -oBatchMode=yes -oPermitLocalCommand=no -oForwardAgent=no -oClearAllForwardings=yes"

OVERRIDES = (
    # programs that git would start
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=:",
    "sequence.editor=:",
    "core.askPass=",
    f"core.sshCommand={SSH_COMMAND}",
    "gpg.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "push.gpgSign=false",
    "log.showSignature=false",
    "merge.verifySignatures=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "rerere.enabled=false",
    # other repositories and the network
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "status.submoduleSummary=false",
    "diff.ignoreSubmodules=dirty",
    "diff.submodule=short",
    "protocol.ext.allow=never",
    "protocol.fd.allow=never",
    "transfer.bundleURI=false",
    "credential.interactive=false",
    # the shape of what git says
    "core.quotePath=false",
    "core.bigFileThreshold=32m",
    "i18n.logOutputEncoding=UTF-8",
    "i18n.commitEncoding=UTF-8",
    "color.ui=false",
    "column.ui=never",
    "advice.detachedHead=false",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "user.useConfigOnly=true",
)
"""Config given as `-c`, which outranks every config file."""


def git_program(environ: Mapping[str, str]) -> str:
    """Return the absolute path of git on the operator's `PATH`.

    Raises:
        ToolError: there is none.
    """
    found = shutil.which("git", path=environ.get("PATH", os.defpath))
    if found is None or not os.path.isabs(found):
        raise ToolError("git was not found on the server's PATH; install git 2.34 or newer")
    return found


def hardened(settings: Settings, program: str) -> list[str]:
    """Return `program` with the options that every git process of ours starts with."""
    pairs = list(OVERRIDES)
    if not settings.credential_helper:
        pairs.append("credential.helper=")
    if settings.hosts:
        pairs.append("http.followRedirects=false")
    return [program, "--no-pager", *(arg for pair in pairs for arg in ("-c", pair))]


def environment(settings: Settings, *, protocol: str, ceiling: Path, write: bool) -> dict[str, str]:
    """Return the whole environment of one git process.

    Args:
        settings: the limits.
        protocol: the one transport it may use, `none` for none.
        ceiling: folder that git never looks above (nor in) for a repository.
        write: whether it may take locks that are only an optimisation.
    """
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    env |= {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_SSH_COMMAND": SSH_COMMAND,
        "GIT_SSH_VARIANT": "ssh",
        "GIT_EDITOR": ":",
        "GIT_SEQUENCE_EDITOR": ":",
        "GIT_PAGER": "cat",
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_PROTOCOL_FROM_USER": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_CEILING_DIRECTORIES": str(ceiling),
        "GIT_DISCOVERY_ACROSS_FILESYSTEM": "0",
        "GIT_OPTIONAL_LOCKS": "1" if write else "0",
    }
    return env


def run_git(
    settings: Settings,
    args: Sequence[str],
    *,
    cwd: Path,
    protocol: str = "none",
    codes: Sequence[int] = (0,),
    max_bytes: int = MAX_BYTES,
    stdin: bytes = b"",
    write: bool = False,
) -> Finished:
    """Run git with `args` and return what it wrote.

    Args:
        settings: the limits.
        args: global options, the command and its arguments.
        cwd: the working folder.
        protocol: the one transport it may use.
        codes: exit codes that are no failure.
        max_bytes: how much of stdout is kept; a command that only reads is ended there.
        stdin: what git may read.
        write: whether the command changes anything.

    Raises:
        ToolError: git is missing, ran out of time or failed.
    """
    env = environment(settings, protocol=protocol, ceiling=cwd.parent, write=write)
    timeout_s = settings.timeout_s if protocol == "none" else settings.network_timeout_s
    name = next((arg for arg in args if not arg.startswith("-")), "command")
    try:
        done = run_bounded(
            [*hardened(settings, git_program(env)), *args],
            cwd=cwd,
            env=env,
            timeout_s=timeout_s,
            max_bytes=max_bytes,
            stdin=stdin,
            stop_when_full=not write,
            ends_with_caller=not write or protocol != "none",
        )
    except TimeoutError:
        raise ToolError(f"git {name} took longer than {timeout_s:g} s and was stopped") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its arguments were refused"
        raise ToolError(f"git {name} could not be started: {reason}") from None
    if done.code in codes or (done.truncated and not write):
        return done
    raise ToolError(f"git {name} failed: {explained(settings, done.err) or f'exit code {done.code}'}")


_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")
_ABSOLUTE = re.compile(r"(?<![\w/:.~)\]-])/[^\s'\",:;()]+")


def explained(settings: Settings, err: bytes) -> str:
    """Return git's complaint for a caller: short, no advice, no credentials, no path outside the roots."""
    kept = [
        re.sub(r"^(fatal|error|warning|remote): +", "", line)
        for line in decoded(err).splitlines()
        if line.strip() and not line.startswith("hint:")
    ]
    text = _CREDENTIALS.sub("", "\n".join(kept))
    if len(settings.roots) == 1:
        root = re.escape(str(settings.roots[0]))
        text = re.sub(rf"{root}(/+(?=[^\s'\"])|(?![\w.-]))", lambda m: "" if m[1] else ".", text)
    text = _ABSOLUTE.sub(lambda m: m[0] if settings.contains(Path(m[0])) else "(a path)", text)
    return clipped(text, MAX_ERROR_CHARS)


def redacted(url: str) -> str:
    """Return `url` without the user and password in it."""
    return _CREDENTIALS.sub("", url)
