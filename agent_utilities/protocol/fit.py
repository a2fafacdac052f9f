"""Adapts what a server sends to a client's protocol version, one component at a time, as little as it must."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import mcp_types
from mcp_types.methods import SERVER_RESULTS, serialize_server_result
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field, ValidationError, create_model, model_validator

ENVELOPE: Mapping[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""The keys of every result of 2026-07-28, with their defaults."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of component, and how it is listed.

    Args:
        name: as people call it.
        field: the key of a list's result for the items.
        key: an item's unique key.
        model, model_key, model_field: the SDK's model of an item, and its names of key and field.
        foreign: keys of an item that 2026-07-28 has dropped.
    """

    name: str
    method: str
    field: str
    key: str
    model: type[BaseModel]
    model_key: str
    model_field: str
    foreign: frozenset[str] = frozenset()


TOOL = Kind("tool", "tools/list", "tools", "name", mcp_types.Tool, "name", "tools", frozenset({"execution"}))
PROMPT = Kind("prompt", "prompts/list", "prompts", "name", mcp_types.Prompt, "name", "prompts")
RESOURCE = Kind("resource", "resources/list", "resources", "uri", mcp_types.Resource, "uri", "resources")
TEMPLATE = Kind(
    *("resource template", "resources/templates/list", "resourceTemplates", "uriTemplate"),
    *(mcp_types.ResourceTemplate, "uri_template", "resource_templates"),
)
KINDS = {kind.method: kind for kind in (TOOL, PROMPT, RESOURCE, TEMPLATE)}
"""The kinds, by the method that lists them."""


class _Frontmatter(BaseModel):
    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)
    description: str = Field(min_length=1, max_length=1024)


class _File(BaseModel):
    uri: str
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    size: int = Field(ge=0)


class Skill(BaseModel):
    """A skill by the extension of SEP-2640: clients refuse a whole list for one that violates it."""

    uri: str
    frontmatter: _Frontmatter
    resources: list[_File] | Literal["dynamic"]

    @model_validator(mode="after")
    def _is_a_folder(self) -> Self:
        files = [self.uri] if self.resources == "dynamic" else [file.uri for file in self.resources]
        folder, name = self.uri.removesuffix("SKILL.md"), f"/{self.frontmatter.name}/SKILL.md"
        is_whole = self.uri in files and len({*files}) == len(files)
        if not (is_whole and self.uri.endswith(name) and all(uri.startswith(folder) for uri in files)):
            raise ValueError(f"its files are not {name[1:]} and what is beside it, each once")
        return self


SKILL = Kind("skill", "skills/list", "skills", "uri", Skill, "uri", "skills")
SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
_PAGE = create_model("Skills", skills=(list[Skill], ...))
RESULTS = {**SERVER_RESULTS, **{(SKILL.method, version): _PAGE for version in KNOWN_PROTOCOL_VERSIONS}}


@dataclass(frozen=True, slots=True)
class Fit:
    """A component adapted to the clients of one era.

    Args:
        item: with its server's own keys; None where these clients can't read it.
        problem: what was repaired or dropped, or why they can't; empty where it is unchanged.
    """

    item: dict[str, Any] | None
    problem: str = ""


def fitted(kind: Kind, item: Mapping[str, Any], *, is_modern: bool, as_sieved: bool = False) -> Fit:
    """Adapt a listed item to clients of 2026-07-28, or of before.

    What they would refuse is dropped where it is optional: a tool's output schema, a title that is a number.

    Args:
        as_sieved: whether to return it as the SDK would send it, without its server's own keys.
    """
    version = MODERN_PROTOCOL_VERSIONS[-1] if is_modern else LATEST_HANDSHAKE_VERSION
    fit = {key: value for key, value in item.items() if not (is_modern and key in kind.foreign)}
    problem, is_mended = "", False
    if kind is TOOL and isinstance(hints := fit.get("annotations"), dict):
        # Bounds depend on hints: a text is none, however clients read it.
        odd = {key for key, value in hints.items() if key.endswith("Hint") and not isinstance(value, bool | None)}
        if odd:
            fit["annotations"] = {key: value for key, value in hints.items() if key not in odd}
            problem = f"annotations.{min(odd)}: neither true nor false"
    while True:
        try:
            result = {**ENVELOPE, kind.field: [fit]}
            sieved = serialize_server_result(kind.method, version, result, surface=RESULTS)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False, include_context=False)
            problem = problem or _message(kind, errors[0])
            wrong = {str(place[0]) for each in errors if (place := _place(kind, each["loc"]))}
            if "inputSchema" in wrong and isinstance(fit.get("inputSchema"), dict) and not is_mended:
                is_mended, fit["inputSchema"] = True, _mended(fit["inputSchema"])
            elif spare := {key for key in wrong if fit.get(key) is not None} - {"name", kind.key, "inputSchema"}:
                fit = {key: value for key, value in fit.items() if key not in spare}
            else:
                return Fit(None, problem)
        except RecursionError as error:
            return Fit(None, str(error))
        else:
            return Fit(sieved[kind.field][0] if as_sieved else fit, problem)


def _place(kind: Kind, loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the location of an error within an item."""
    return loc[loc.index(kind.field) + 2 :] if kind.field in loc else loc


def _message(kind: Kind, error: Any) -> str:
    where = ".".join(map(str, _place(kind, error["loc"])))
    return f"{where}{': ' if where else ''}{error['msg']}"[:300]


def _mended(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's input schema without its malformed parts: the tool can be called without them."""
    kind, mended = schema.get("type"), dict(schema)
    if kind is None or (isinstance(kind, list) and "object" in kind):
        mended["type"] = "object"
    if not isinstance(mended.get("$schema", ""), str):
        del mended["$schema"]
    if "properties" in mended:
        properties = mended["properties"] if isinstance(mended["properties"], dict) else {}
        mended["properties"] = {key: value for key, value in properties.items() if isinstance(value, dict | bool)}
    if "required" in mended:
        names = mended["required"] if isinstance(mended["required"], list) else []
        mended["required"] = [name for name in names if isinstance(name, str)]
    return mended


def result_for(result: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Adapt the result of a call, a prompt or a resource to a client's protocol version.

    Before 2026-07-28 structured content must be an object; other values are wrapped as its `result`.
    """
    if version in MODERN_PROTOCOL_VERSIONS:
        return {"resultType": ENVELOPE["resultType"], **result}
    if "resultType" not in result:  # of an older server
        return dict(result)
    fit = {key: value for key, value in result.items() if key not in ENVELOPE}
    content = fit.get("structuredContent", {})
    if content is None:
        del fit["structuredContent"]
    elif not isinstance(content, dict):
        fit["structuredContent"] = {"result": content}
    return fit


GROUPS_KEY = "io.modelcontextprotocol/groups"
"""The key of a tool's `_meta` that holds the names of its groups, a list.

Source: SEP-2084 (closed, not part of the protocol); its TypeScript and Python implementations read this key.
"""
