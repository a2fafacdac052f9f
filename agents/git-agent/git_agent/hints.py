"""Words that users have for each tool and its text has not: search hints, for rankers and never for the model."""

from __future__ import annotations

HINTS: dict[str, str] = {
    "clone_repo": "download, fetch or copy a project from GitHub, GitLab or another URL; get the sources",
    "git_status": "what is uncommitted, not committed or saved yet, modified, new or pending; is all clean; conflicts",
    "git_log": "latest commits, recent changes, what happened or changed last week, yesterday, since when; who did it",
    "git_diff": "compare versions or branches, what is different or was edited, review uncommitted changes",
    "git_show": "what is in one commit, by its hash; what a file looked like in an old version or release",
    "git_blame": "author of a line of code, who wrote or is responsible for it, when and why it was written",
    "git_branches": "which branches exist, current branch, what is merged, ahead or behind",
    "git_checkout": "start or create a new branch, change to another one, go back to an earlier version",
    "git_add": "mark files as ready to commit, include a file, track a new file",
    "git_commit": "save or record my work with a message, check in",
    "git_push": "upload, publish or send commits and branches to the server or GitHub",
    "git_stash": "put unfinished work aside for later, shelve, restore it afterwards, drop it",
}
