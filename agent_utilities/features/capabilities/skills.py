"""Skills: which capabilities one calls for when a client reads it.

Only skills of the operator's own server count; they name capabilities in the frontmatter of their `SKILL.md`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastmcp.utilities.components import FastMCPComponent

    from agent_utilities.mcp.agent_server import AgentServer

MAX_CHARACTERS = 32 * 1024
"""The longest frontmatter that is looked into."""
MAX_NAMES = 16
"""How many names count."""
_FRONTMATTER = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"""^(?:capabilities|"capabilities"|'capabilities')[ \t]*:(.*(?:\n(?:[ \t-].*|\r?$))*)""", re.M)
"""The key at the beginning of a line, and the lines under it: those further in, those of a list, and empty ones."""
_COMMENT = re.compile(r"(?:^|\s)#.*")
_SEPARATORS = re.compile(r"""[\s,\[\]"']+""")
_NAME = re.compile(r"\w[\w.+-]{0,99}")
_SKILLS = {
    "fastmcp.skills.provider": ("SkillFileResource",),  # of 4.2
    "fastmcp.server.providers.skills.skill_provider": ("SkillResource", "SkillFileResource", "SkillFileTemplate"),
}
"""Files of skills, where a provider of them was imported."""


def capabilities_of(text: str) -> tuple[str, ...]:
    """Return the names under `capabilities` in a text's frontmatter, in its order, each once; () where there are none.

    They may be one text, with spaces or commas between them, or a list. That entry alone is looked at, and taken apart
    into words: what is wrong elsewhere, as a colon in a description often is, costs a skill nothing.
    """
    frontmatter = _FRONTMATTER.match(text[:MAX_CHARACTERS])
    entry = _ENTRY.search(frontmatter[1]) if frontmatter else None
    words = _SEPARATORS.split(_COMMENT.sub("", entry[1])) if entry else ()
    return tuple(dict.fromkeys(word for word in words if _NAME.fullmatch(word)))[:MAX_NAMES]


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
    return kind == "text/markdown" or str(content["uri"]).rpartition("/")[2] == "SKILL.md"


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

    skills = (getattr(sys.modules.get(module), name, None) for module, names in _SKILLS.items() for name in names)
    given = (FunctionPrompt, FunctionResource, FileResource, TextResource)
    return isinstance(component, (*filter(None, skills), *given))
