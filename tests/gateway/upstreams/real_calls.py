"""Calls of the real servers whose results are the same every time, whoever makes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RealCall:
    """One call.

    Args:
        server: the server's name in the config.
        tool: the tool, as its server calls it.
        arguments: what it is given.
    """

    server: str
    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.server} {self.tool}"


def real_calls(workspace: Path, page: str) -> tuple[RealCall, ...]:
    """Return calls that need no network, among them some that fail, that answer with bytes, and that write.

    Args:
        workspace: of `real_servers.make_workspace`.
        page: the URL of a page of text.
    """
    text, numbers = str(workspace / "read me.txt"), str(workspace / "notes" / "numbers.csv")
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote the first program", "Grüße, 世界"]}
    thought = {"thought": "begin", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
    zones = {"source_timezone": "UTC", "target_timezone": "Asia/Tokyo", "time": "09:30"}
    repository = {"repo_path": str(workspace)}
    return (
        RealCall("everything", "echo", {"message": "Grüße, 世界 \U0001f600\u2028"}),
        RealCall("everything", "get-sum", {"a": 0.1, "b": 0.2}),
        RealCall("everything", "get-sum", {"a": "no number"}),
        RealCall("everything", "get-tiny-image"),
        RealCall("everything", "get-annotated-message", {"messageType": "error", "includeImage": True}),
        RealCall("everything", "get-structured-content", {"location": "Chicago"}),
        RealCall("everything", "get-resource-links", {"count": 3}),
        RealCall("everything", "trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
        RealCall("filesystem", "read_text_file", {"path": text}),
        RealCall("filesystem", "read_media_file", {"path": str(workspace / "dot.png")}),
        RealCall("filesystem", "read_multiple_files", {"paths": [text, numbers, str(workspace / "absent")]}),
        RealCall("filesystem", "directory_tree", {"path": str(workspace / "notes")}),
        RealCall("filesystem", "search_files", {"path": str(workspace), "pattern": "*.csv"}),
        RealCall("filesystem", "read_text_file", {"path": "/outside"}),
        RealCall("filesystem", "write_file", {"path": str(workspace / "written.txt"), "content": "again"}),
        RealCall("memory", "create_entities", {"entities": [entity]}),
        RealCall("memory", "search_nodes", {"query": "program"}),
        RealCall("memory", "read_graph"),
        RealCall("sequential-thinking", "sequentialthinking", thought),
        RealCall("git", "git_log", {**repository, "max_count": 5}),
        RealCall("git", "git_diff_unstaged", repository),
        RealCall("git", "git_show", {**repository, "revision": "HEAD"}),
        RealCall("git", "git_show", {**repository, "revision": "no-such-revision"}),
        RealCall("time", "convert_time", zones),
        RealCall("time", "convert_time", {**zones, "target_timezone": "Nowhere/At_All"}),
        RealCall("fetch", "fetch", {"url": page, "raw": True}),
        RealCall("fetch", "fetch", {"url": page, "raw": True, "max_length": 40, "start_index": 10}),
    )
