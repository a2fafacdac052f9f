"""The capabilities that a skill calls for when a client reads it: only skills of the operator's own server count."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent_utilities.capabilities.frontmatter import MAX_CHARACTERS, capabilities_of

if TYPE_CHECKING:
    from fastmcp.utilities.components import FastMCPComponent

    from agent_utilities.mcp.host import Host

SKILL_FILE = "SKILL.md"
_MARKDOWN = "text/markdown"
_BLOB_CHARACTERS = 8 * MAX_CHARACTERS  # which a multiple of four is, as base64 has it


def skills_read(result: Any) -> tuple[str, ...]:
    """Return the capabilities that a read resource or a prompt names in its frontmatter, each once.

    Of resources those count whose URI ends in `SKILL.md`, or whose type is Markdown; of a prompt its first message.

    Args:
        result: of `resources/read` or `prompts/get`, as it goes over the wire; anything else names none.
    """
    if not isinstance(result, Mapping):
        return ()
    texts = (*_of_resources(_dicts(result.get("contents"))), *_of_prompt(_dicts(result.get("messages"))))
    return tuple(dict.fromkeys(name for text in texts for name in capabilities_of(text)))


async def skill_capabilities(server: Host, method: str, params: Mapping[str, Any], result: Any) -> tuple[str, ...]:
    """Return the capabilities that a result calls for, where what it is of is the server's own; () for any other.

    Args:
        server: the server that answered, under the verdict of the request.
        method: of the request, such as `resources/read`.
        params: the request's.
        result: its result, as it goes over the wire.
    """
    if method not in ("resources/read", "prompts/get") or not (names := skills_read(result)):
        return ()
    if method == "prompts/get":
        component: FastMCPComponent | None = await server.get_prompt(str(params.get("name")))
    else:
        uri = str(params.get("uri"))
        component = await server.get_resource(uri) or await server.get_resource_template(uri)
    return names if is_own(component) else ()


def is_own(component: FastMCPComponent | None) -> bool:
    """Whether the text of a component is written by whoever runs this server: a file of theirs, or their code.

    Not so for what an upstream, a proxied, mounted or unknown server gives, nor where a caller's words choose what is
    fetched: a page somewhere could call for capabilities else.

    Args:
        component: what was read, as the server has it; None where middleware answered in its place.
    """
    from fastmcp.prompts.function_prompt import FunctionPrompt
    from fastmcp.resources.function_resource import FunctionResource
    from fastmcp.resources.types import FileResource, TextResource
    from fastmcp.server.providers.skills.skill_provider import SkillFileResource, SkillFileTemplate, SkillResource

    skills = (SkillResource, SkillFileResource, SkillFileTemplate)
    return isinstance(component, (*skills, FunctionPrompt, FunctionResource, FileResource, TextResource))


def _of_resources(contents: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for content in contents:
        if _is_skill(content):
            yield from _text(content)


def _of_prompt(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    content = next((message.get("content") for message in messages), None)
    if isinstance(content, Mapping):
        resource = content.get("resource")
        yield from _text(content)
        yield from _of_resources([resource] if isinstance(resource, Mapping) else [])


def _is_skill(content: Mapping[str, Any]) -> bool:
    kind = str(content.get("mimeType") or "").partition(";")[0].strip().lower()
    return kind == _MARKDOWN or str(content.get("uri") or "").rpartition("/")[2] == SKILL_FILE


def _text(content: Mapping[str, Any]) -> Iterator[str]:
    text, blob = content.get("text"), content.get("blob")
    if isinstance(text, str):
        yield text
    elif isinstance(blob, str):
        try:
            yield b64decode(blob[:_BLOB_CHARACTERS]).decode(errors="replace")
        except binascii.Error:
            return


def _dicts(found: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in found if isinstance(each, Mapping)) if isinstance(found, list | tuple) else iter(())
