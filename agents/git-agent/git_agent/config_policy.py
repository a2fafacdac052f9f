"""Which settings a repository's own config may hold.

A repository's config can make git start programs (`core.fsmonitor`, `filter.*.clean`, `diff.*.textconv`,
`remote.*.uploadpack`, ...), read other files (`include.path`, `core.attributesFile`) or talk to other
places (`url.*.insteadOf`, `http.proxy`). Not all of those can be overridden from the command line, and
new ones come with new versions of git: so this is a list of what is known to be harmless, and a
repository with anything else is refused.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from fastmcp.exceptions import ToolError

from git_agent.command import run_git
from git_agent.roots import read_pointer
from git_agent.settings import Settings
from git_agent.text import clipped, decoded

MAX_CONFIG_BYTES = 1024 * 1024

_ONE = r"[^.]+"
_SUB = r".*"
HARMLESS = re.compile(
    "|".join(
        (
            r"core\.(repositoryformatversion|filemode|bare|worktree|logallrefupdates|ignorecase|symlinks)",
            r"core\.(precomposeunicode|autocrlf|eol|safecrlf|whitespace|quotepath|compression)",
            r"core\.(loosecompression|bigfilethreshold|abbrev|trustctime|checkstat|untrackedcache)",
            r"core\.(preloadindex|commitgraph|multipackindex|sparsecheckout|sparsecheckoutcone)",
            r"core\.(sharedrepository|hidedotfiles|longpaths|fscache|commentchar|splitindex)",
            rf"(extensions|advice|column|gui|gitk|index|pack|gc|rebase|i18n|pull|versionsort|rerere)\.{_ONE}",
            rf"color\.{_SUB}",
            rf"branch\.({_SUB}\.)?{_ONE}",
            rf"maintenance\.{_SUB}",
            r"(log|status|stash|grep)\.[^.]+",
            r"(user|author|committer)\.(name|email|signingkey|useconfigonly)",
            r"(commit|tag|push)\.gpgsign",
            r"commit\.(verbose|cleanup|status)|tag\.sort",
            r"push\.(default|followtags|autosetupremote|useforceifincludes|recursesubmodules)",
            r"fetch\.(prune|prunetags|output|parallel|writecommitgraph|recursesubmodules|showforcedupdates)",
            r"merge\.(ff|conflictstyle|renames|renamelimit|directoryrenames|stat|log|autostash)",
            r"diff\.(algorithm|renames|renamelimit|colormoved|context|interhunkcontext|indentheuristic)",
            r"diff\.(noprefix|mnemonicprefix|relative|submodule|ignoresubmodules|suppressblankempty)",
            r"init\.defaultbranch|transfer\.fsckobjects|fetch\.fsckobjects",
            r"receive\.(denynonfastforwards|denydeletes|fsckobjects)",
            rf"remote\.{_SUB}\.(url|pushurl|fetch|push|tagopt|prune|prunetags|mirror|promisor)",
            rf"remote\.{_SUB}\.(partialclonefilter|skipdefaultupdate|skipfetchall|gh-resolved)",
            r"remote\.pushdefault|checkout\.(defaultremote|guess|workers|thresholdforparallelism)",
            rf"submodule\.({_SUB}\.)?(active|url|path|branch|ignore|fetchrecursesubmodules|recurse|fetchjobs)",
            rf"lfs\.repositoryformatversion|lfs\.{_SUB}\.(access|locksverify)",
        )
    ),
    re.DOTALL,
)


def require_harmless_config(settings: Settings, config: Path, top: Path | None) -> None:
    """Refuse a repository whose config file may do more than describe it.

    git itself reads the file, so that both understand the same; `include` is not followed, and refused.

    Args:
        settings: the limits; `trust_config` turns the check off.
        config: the file; need not exist.
        top: the working tree that `core.worktree` may name.

    Raises:
        ToolError: names the first key that is not known to be harmless.
    """
    if read_pointer(config, "config", MAX_CONFIG_BYTES) is None or settings.trust_config:
        return
    done = run_git(
        settings,
        ["config", f"--file={config}", "--no-includes", "--null", "--list"],
        cwd=Path(config.anchor),
    )
    for entry in done.out.split(b"\0")[:-1]:
        key, _, value = decoded(entry).partition("\n")
        if not HARMLESS.fullmatch(key):
            raise ToolError(
                f"repository refused: its own config sets {clipped(key, 100)!r}, which could start programs "
                "or reach other places; remove the key, or let the operator set GIT_AGENT_TRUST_CONFIG=1"
            )
        if key == "core.worktree" and Path(os.path.realpath(config.parent / value)) != top:
            raise ToolError("repository refused: its own config sets 'core.worktree' to another folder")
