"""Private names of fastmcp-tasks: its keys for the state of a task."""

from __future__ import annotations

import json
from typing import Any

from fastmcp.utilities.versions import VersionSpec


async def _kept(server: Any, task_id: str, suffix: str = "") -> Any:
    """Return the stored state of a background task of the caller's, or None.

    Why: only stored state names a task's tool and token; FastMCP looks the tool up itself when the task is done.
    Ends when: the tasks extension checks whether the caller may use a task's tool before it answers for the task.
    """
    from fastmcp_tasks.context import get_task_scope
    from fastmcp_tasks.keys import task_redis_prefix

    docket = server.docket
    async with docket.redis() as redis:
        return await redis.get(docket.key(f"{task_redis_prefix(get_task_scope())}:{task_id}{suffix}"))


async def tool_of_task(server: Any, task_id: str) -> tuple[str, VersionSpec | None] | None:
    """Return name and version of the tool of a background task of the caller's, or None for no such task."""
    if server.docket is None or not (key := await _kept(server, task_id)):
        return None
    from fastmcp_tasks.keys import parse_task_key

    component = parse_task_key(key.decode())["component_identifier"]
    if not component.startswith("tool:"):
        return None
    name, at, version = component.removeprefix("tool:").rpartition("@")
    return (name, VersionSpec(eq=version) if version else None) if at else (version, None)


async def is_task_of_issuer(server: Any, task_id: str, issuer: str | None) -> bool:
    """Whether a token of this issuer started a background task of the caller's client and subject.

    Why: FastMCP scopes tasks by client and subject alone, so that one issuer's subject could reach another's tasks.
    Ends when: `get_task_scope` includes the issuer.
    """
    from fastmcp_tasks.context import TaskContextSnapshot
    from fastmcp_tasks.encryption import snapshot_codec

    if (kept := await _kept(server, task_id, ":snapshot")) is None:
        return False
    token = TaskContextSnapshot.from_json(snapshot_codec().decode(kept)).access_token_json
    return token is not None and (json.loads(token).get("claims") or {}).get("iss") == issuer
