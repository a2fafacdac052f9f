"""The operator's settings, read from `FILESYSTEM_AGENT_*`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MIB = 1 << 20


class Settings(BaseSettings):
    """Where the tools may work and how much one call may cost."""

    model_config = SettingsConfigDict(env_prefix="FILESYSTEM_AGENT_", frozen=True, env_ignore_empty=True)

    roots: Annotated[tuple[Path, ...], NoDecode] = Field(
        default=(),
        description="Allowed directories, separated by the system's path separator (`:`). "
        "Default: the current directory.",
    )
    max_read_bytes: int = Field(
        default=10 * MIB, ge=1, description="Largest file that is edited, compared or hashed, in bytes."
    )
    max_write_bytes: int = Field(default=10 * MIB, ge=1, description="Largest file that is written, in bytes.")
    max_result_chars: int = Field(default=100_000, ge=1_000, description="Most text in one result, in characters.")
    max_entries: int = Field(default=1_000, ge=1, description="Most entries or matches in one result.")
    max_scanned_entries: int = Field(
        default=200_000, ge=1, description="Most directory entries one listing or search looks at."
    )
    time_limit_s: float = Field(
        default=10.0, gt=0, description="Longest run of one listing, search or comparison, in seconds."
    )

    @field_validator("roots", mode="before")
    @classmethod
    def split_roots(cls, value: object) -> object:
        """Return the roots of a `PATH`-like string; other values stay as they are."""
        if isinstance(value, str):
            return tuple(part for part in value.split(os.pathsep) if part.strip())
        return value
