"""Folders of skills, served as resources: `skill://NAME/SKILL.md`, and what lies beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_utilities.errors import SettingsError

if TYPE_CHECKING:
    from fastmcp.server.providers.skills import SkillsDirectoryProvider


def skills_provider(folders: Sequence[Path], source: str = "--skills") -> SkillsDirectoryProvider:
    """Return a provider of the skills in folders: each folder in one of them that has a `SKILL.md`.

    The folders are gone through here, once: to do so at every request would hold up the event loop. What a skill says
    is read when it is read, so that it may be edited while it is served.

    Args:
        folders: of two skills of one name, the earlier folder's is served.
        source: where the folders were given.

    Raises:
        SettingsError: one of them is no folder.
    """
    for folder in folders:
        if not folder.is_dir():
            hint = "give a folder whose folders have a SKILL.md each, such as ~/.claude/skills"
            raise SettingsError("no folder of skills", str(folder), source, hint)
    from fastmcp.server.providers.skills import SkillsDirectoryProvider

    return SkillsDirectoryProvider([*folders])
