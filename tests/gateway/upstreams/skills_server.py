"""A server of skills, over stdio: `python skills_server.py NAME ERA WHAT`.

ERA: `old` speaks up to 2025-11-25, `new` 2026-07-28. WHAT, as JSON: `skills`, those that it lists, each a name or what
it lists as it is; `hidden`, those that it has besides; `resources` and `templates` that it lists; `later`, a file with
names of skills that it lists too; `fails`, whether it fails to list skills; `asks`, whether it has them for those
clients alone who say that they know of them. A skill of a name has two files, and each says whose it is.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

name, era, what = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
EXTENSION = "io.modelcontextprotocol/skills"


def text(uri: str) -> str:
    return f"{uri} of {name}"


def entry(skill: Any) -> Any:
    if not isinstance(skill, str):
        return skill
    files = [f"skill://{skill}/SKILL.md", f"skill://{skill}/references/more.md"]
    digests = {uri: f"sha256:{sha256(text(uri).encode()).hexdigest()}" for uri in files}
    called = skill.rpartition("/")[2]
    return {
        "uri": files[0],
        "frontmatter": {"name": called, "description": f"Do {called}.", "metadata": {"of": name}},
        "resources": [{"uri": uri, "digest": digests[uri], "size": len(text(uri))} for uri in files],
    }


def listed() -> list[Any]:
    later = Path(what["later"]).read_text().split() if "later" in what else []
    return [entry(skill) for skill in [*what.get("skills", []), *later]]


def page(cursor: str) -> dict[str, Any]:
    """Return one skill, and where the next one is."""
    n, skills = int(cursor), listed()
    return {"skills": skills[n : n + 1], **({"nextCursor": str(n + 1)} if n + 1 < len(skills) else {})}


def got(uri: str) -> dict[str, Any] | None:
    every = [*listed(), *map(entry, what.get("hidden", []))]
    found = next((each for each in every if isinstance(each, dict) and each.get("uri") == uri), None)
    return None if found is None else {"skill": found, "own": "kept"}


def is_hidden(method: str, params: dict[str, Any]) -> bool:
    """Whether a request is of skills that this client is to have none of."""
    offered = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities", {}).get("extensions", {})
    return method.startswith("skills/") and bool(what.get("asks")) and EXTENSION not in offered


def result_of(method: str, params: dict[str, Any]) -> Any:
    """Return the result of a request; None for one that it does not know."""
    extensions: dict[str, Any] = {"extensions": {EXTENSION: {}}} if "skills" in what else {}
    capabilities = {"tools": {}, "resources": {}, **extensions}
    info = {"name": name, "version": "1"}
    answers: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info},
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": capabilities},
        "ping": {},
        "tools/list": {"tools": [{"name": "wait", "inputSchema": {"type": "object"}}]},
        "resources/list": {"resources": [{"uri": uri, "name": f"file {uri}"} for uri in what.get("resources", [])]},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": each, "name": "any"} for each in what.get("templates", [])]
        },
        "resources/read": {"contents": [{"uri": params.get("uri"), "text": text(str(params.get("uri")))}]},
        "skills/list": None if what.get("fails") else page(params.get("cursor", "0")),
        "skills/get": got(str(params.get("uri"))),
    }
    if method == ("server/discover" if era == "old" else "initialize") or is_hidden(method, params):
        return None
    return answers.get(method)


for line in sys.stdin:
    received = json.loads(line)
    if "id" in received and "method" in received:
        result = result_of(received["method"], received.get("params") or {})
        modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"} if era == "new" else {}
        code = -32602 if received["method"] == "skills/get" else -32601
        unknown = {"error": {"code": code, "message": "unknown"}}
        answer = unknown if result is None else {"result": {**modern, **result}}
        print(json.dumps({"jsonrpc": "2.0", "id": received["id"], **answer}), flush=True)
