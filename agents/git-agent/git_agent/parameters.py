"""Parameters that several tools share."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

Repo = Annotated[str, Field(description="Top of a repository, relative to the allowed root", max_length=4096)]
Paths = Annotated[
    list[str] | None,
    Field(description="Only these files or folders, relative to the top", max_length=1000),
]
MaxBytes = Annotated[int, Field(description="Cut longer text here", ge=1_000, le=1_000_000)]
