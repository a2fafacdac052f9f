"""Snapshots on disk: what is saved is loaded, whatever other processes, kills, damage and full disks do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp_types

from agent_utilities.upstream.config import UpstreamConfig
from agent_utilities.upstream.snapshot import Snapshot
from agent_utilities.upstream.snapshot_store import SnapshotStore


def config(name: str = "git", **fields: Any) -> UpstreamConfig:
    return UpstreamConfig(name=name, source="mcp.json", transport="stdio", **{"command": "git-mcp", **fields})


GIT = config()


def snapshot(of: UpstreamConfig = GIT, text: str = "Show the status.") -> Snapshot:
    tool = mcp_types.Tool(
        name="git_status",
        description=text,
        input_schema={"type": "object", "properties": {"path": {"type": "string"}}},
        annotations=mcp_types.ToolAnnotations(read_only_hint=True),
        _meta={"a": [1, None, "b"]},
    )
    return Snapshot(
        upstream=of.name,
        config_digest=of.digest,
        taken_at_s=1.5,
        protocol_version="2025-11-25",
        server_info={"name": "git", "version": "1"},
        instructions="Work with git.",
        capabilities={"tools": {"listChanged": True}},
        tools=(tool,),
        prompts=(mcp_types.Prompt(name="p", arguments=[mcp_types.PromptArgument(name="a", required=True)]),),
        resources=(mcp_types.Resource(name="r", uri="file:///a"),),
        templates=(mcp_types.ResourceTemplate(name="t", uri_template="file:///{a}"),),
        problems=("one",),
    )


class TestWhatIsSaved:
    def test_is_loaded_by_another_process(self, tmp_path: Path) -> None:
        SnapshotStore(tmp_path).save(snapshot())
        loaded = SnapshotStore(tmp_path).load(GIT)
        assert loaded is not None
        assert loaded.model_dump() == snapshot().model_dump()
        assert loaded.digest == snapshot().digest

    def test_is_not_another_configs(self, tmp_path: Path) -> None:
        SnapshotStore(tmp_path).save(snapshot())
        assert SnapshotStore(tmp_path).load(config(command="other")) is None

    def test_without_a_folder_it_is_in_memory(self) -> None:
        store = SnapshotStore(None)
        store.save(snapshot())
        assert store.load(GIT) == snapshot()
