"""Tools of real servers, as these list them: filesystem, git, GitHub, a database, tickets and weather."""

from __future__ import annotations

from typing import Any

from agent_utilities.programs.stubs import Stub, python_names, stub_of

_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_REPO: dict[str, Any] = {"owner": _TEXT, "repo": _TEXT}
_USER = {"type": "object", "properties": {"login": _TEXT, "id": {"type": "integer"}}, "required": ["login", "id"]}
_NULLABLE = {"anyOf": [_TEXT, {"type": "null"}]}


def _takes(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _wrapped(inner: dict[str, Any], **more: Any) -> dict[str, Any]:
    properties = {"result": inner}
    return {"type": "object", "properties": properties, "required": ["result"], "x-fastmcp-wrap-result": True, **more}


_ISSUE = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "title": _TEXT,
        "body": _NULLABLE,
        "state": {"enum": ["open", "closed"]},
        "user": {"$ref": "#/$defs/User"},
        "labels": {"type": "array", "items": _takes(["name"], name=_TEXT, color=_TEXT)},
        "pull_request": {"type": "object"},
    },
    "required": ["number", "title", "body", "state", "user", "labels"],
}
_EDIT = _takes(["oldText", "newText"], oldText=_TEXT, newText=_TEXT)
_STATUS = {"type": "string", "enum": ["todo", "doing", "done"]}

TOOLS: dict[str, tuple[dict[str, Any], dict[str, Any] | None]] = {
    "read_file": (_takes(["path"], path=_TEXT, head=_NUMBER, tail=_NUMBER), _wrapped(_TEXT)),
    "write_file": (_takes(["path", "content"], path=_TEXT, content=_TEXT), None),
    "edit_file": (
        _takes(["path", "edits"], path=_TEXT, edits={"type": "array", "items": _EDIT}, dryRun={"type": "boolean"}),
        _takes(["content"], content=_TEXT),
    ),
    "list_directory": (
        _takes(["path"], path=_TEXT),
        _wrapped({"type": "array", "items": _takes(["name", "type"], name=_TEXT, type={"enum": ["file", "dir"]})}),
    ),
    "git-log": (
        _takes(["repo_path"], repo_path=_TEXT, max_count={"type": "integer", "default": 10}),
        _wrapped({"type": "array", "items": _takes(["hash", "message"], hash=_TEXT, message=_TEXT, author=_TEXT)}),
    ),
    "git-diff": (_takes(["repo_path", "from"], repo_path=_TEXT, **{"from": _TEXT, "to": _TEXT}), _wrapped(_TEXT)),
    "git-add": (_takes(["files"], files={"type": "array", "items": _TEXT}), None),
    "list_issues": (
        _takes(
            ["owner", "repo"], **_REPO, state={"enum": ["open", "closed", "all"]}, perPage=_NUMBER, labels=_NULLABLE
        ),
        {
            "type": "object",
            "properties": {
                "items": {"type": "array", "items": {"$ref": "#/$defs/Issue"}},
                "total": {"type": "integer"},
            },
            "required": ["items", "total"],
            "$defs": {"Issue": _ISSUE, "User": _USER},
        },
    ),
    "get_issue": (
        _takes(["owner", "repo", "issue_number"], **_REPO, issue_number=_NUMBER),
        {**_ISSUE, "$defs": {"User": _USER}},
    ),
    "create_issue": (
        _takes(["owner", "repo", "title"], **_REPO, title=_TEXT, labels={"type": "array", "items": _TEXT}),
        {**_ISSUE, "$defs": {"User": _USER}},
    ),
    "search": (_takes(["q"], q=_TEXT, sort={"enum": ["stars", "forks"]}, order={"const": "asc"}), {"type": "object"}),
    "query": (
        _takes(["sql"], sql=_TEXT, params={"type": "array", "items": {"type": ["string", "number", "null"]}}),
        _wrapped({"type": "array", "items": {"type": "object", "additionalProperties": True}}),
    ),
    "tickets.update": (
        _takes(["id", "fields"], id={"type": "integer"}, fields=_takes([], status=_STATUS, assignee=_NULLABLE)),
        {"$ref": "#/$defs/T", "$defs": {"T": _takes(["id", "status"], id={"type": "integer"}, status=_STATUS)}},
    ),
    "tickets.tree": (
        _takes(["id"], id={"type": "integer"}),
        {
            "$ref": "#/$defs/Node",
            "$defs": {
                "Node": _takes(
                    ["id"], id={"type": "integer"}, children={"type": "array", "items": {"$ref": "#/$defs/Node"}}
                )
            },
        },
    ),
    "weather": (
        _takes(["lat", "lon"], lat=_NUMBER, lon=_NUMBER, units={"type": "string", "enum": ["metric", "imperial"]}),
        {
            "type": "object",
            "properties": {"temp": _NUMBER, "wind-speed": _NUMBER, "class": _TEXT},
            "required": ["temp", "wind-speed"],
            "additionalProperties": True,
        },
    ),
}


def stubs() -> list[Stub]:
    """Return a stub of each tool."""
    names = python_names(list(TOOLS))
    return [stub_of(name, names[name], *TOOLS[name], f"Does {name}.") for name in TOOLS]
