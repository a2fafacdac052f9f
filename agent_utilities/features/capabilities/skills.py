"""Skills: folders of them served as resources, and the capabilities that one calls for when a client reads it.

Only skills of the operator's own server count; they name capabilities in the frontmatter of their `SKILL.md`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_utilities.errors import SettingsError

if TYPE_CHECKING:
    from fastmcp.server.providers.skills import SkillsDirectoryProvider
    from fastmcp.utilities.components import FastMCPComponent

    from agent_utilities.mcp.agent_server import AgentServer

MAX_CHARACTERS = 32 * 1024
"""The longest frontmatter that is looked into."""
MAX_ENTRY_CHARACTERS = 1024
"""The longest entry of it that is read as YAML."""
MAX_NAMES = 16
"""How many names count."""
_OPENING = re.compile(r"\ufeff?---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$", re.MULTILINE)
_ENTRY = re.compile(r"""^(?:capabilities|"capabilities"|'capabilities')[ \t]*:(?:.*)(?:\n(?:[ \t-].*|\r?$))*""", re.M)
"""The key at the beginning of a line, and the lines under it: those further in, those of a list, and empty ones."""
_MAX_BRACKETS = 8
_SEPARATORS = re.compile(r"[\s,]+")
_NAME = re.compile(r"[\w.+-]{1,100}")


def capabilities_of(text: str) -> tuple[str, ...]:
    """Return the names under `capabilities` in a text's frontmatter, in its order, each once; () for nonsense.

    They may be one text, with spaces or commas between them, or a list. That entry alone is read as YAML: what is
    wrong elsewhere, as a colon in a description often is, costs a skill nothing, and what is huge or deep costs us
    nothing. No value is made of it: tags mean nothing, and aliases and merges, which make a small text large, neither.
    """
    if not (opening := _OPENING.match(text)):
        return ()
    beginning = text[opening.end() : opening.end() + MAX_CHARACTERS]
    closing = _CLOSING.search(beginning)
    entry = _ENTRY.search(beginning, 0, closing.start()) if closing else None
    if entry is None:
        return ()
    names = [name for part in _values(entry[0]) for name in _SEPARATORS.split(part)]
    return tuple(dict.fromkeys(name for name in names if _NAME.fullmatch(name)))[:MAX_NAMES]


def _values(entry: str) -> list[str]:
    """Return the texts under an entry's key, as they are written."""
    # Time and stack grow with the square of how deep brackets nest.
    if len(entry) > MAX_ENTRY_CHARACTERS or entry.count("[") + entry.count("{") > _MAX_BRACKETS:
        return []
    import yaml

    try:
        root = yaml.compose(entry, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return []
    if not isinstance(root, yaml.MappingNode):
        return []
    value = root.value[0][1]
    found = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [each.value for each in found if isinstance(each, yaml.ScalarNode)]


SKILL_FILE = "SKILL.md"
_MARKDOWN = "text/markdown"


def skills_read(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the capabilities that a result of `resources/read` or `prompts/get` names in its frontmatter, each once.

    Of resources those count whose URI ends in `SKILL.md`, or whose type is Markdown; of a prompt its first message.
    """
    said = [message["content"] for message in result.get("messages", ())[:1]]
    resources = [*result.get("contents", ()), *(each["resource"] for each in said if "resource" in each)]
    texts = [each.get("text", "") for each in (*filter(_is_skill, resources), *said)]
    return tuple(dict.fromkeys(name for text in texts for name in capabilities_of(text)))


def _is_skill(content: Mapping[str, Any]) -> bool:
    kind = (content.get("mimeType") or "").partition(";")[0].strip().lower()
    return kind == _MARKDOWN or str(content["uri"]).rpartition("/")[2] == SKILL_FILE


async def skill_capabilities(
    server: AgentServer, method: str, params: Mapping[str, Any], result: Mapping[str, Any]
) -> tuple[str, ...]:
    """Return the capabilities that the result of a request calls for; () where it is not of the server's own."""
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
    fetched: a page somewhere could call for capabilities else; nor where middleware answered, and there is None.
    """
    from fastmcp.prompts.function_prompt import FunctionPrompt
    from fastmcp.resources.function_resource import FunctionResource
    from fastmcp.resources.types import FileResource, TextResource
    from fastmcp.server.providers.skills.skill_provider import SkillFileResource, SkillFileTemplate, SkillResource

    skills = (SkillResource, SkillFileResource, SkillFileTemplate)
    return isinstance(component, (*skills, FunctionPrompt, FunctionResource, FileResource, TextResource))


def skills_provider(folders: Sequence[Path]) -> SkillsDirectoryProvider:
    """Return a provider of the skills in folders: each folder in one of them that has a `SKILL.md`.

    The folders are gone through here, once: to do so at every request would hold up the event loop. What a skill says
    is read when it is read, so that it may be edited while it is served. Of one name the earlier folder's is served.

    Raises:
        SettingsError: one of them is no folder.
    """
    for folder in folders:
        if not folder.is_dir():
            hint = "give a folder whose folders have a SKILL.md each, such as ~/.claude/skills"
            raise SettingsError("no folder of skills", str(folder), "--skills", hint)
    from fastmcp.server.providers.skills import SkillsDirectoryProvider

    return SkillsDirectoryProvider([*folders])
