"""An upstream's tools, prompts, resources and templates as components of this server, listed as it lists them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import mcp_types
from fastmcp.prompts.base import Prompt, PromptArgument, PromptResult
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.tools.base import ToolResult
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from pydantic import BaseModel, Field, InstanceOf

from agent_utilities.features.upstreams.calls import GET_PROMPT, READ_RESOURCE, Caller
from agent_utilities.mcp.tool_origin import ForeignTool, ToolOrigin
from agent_utilities.mcp.wire.middleware import GROUPS_KEY
from agent_utilities.selection.model import fold
from agent_utilities.upstream.config import ToolOverride
from agent_utilities.upstream.names import original_uri

_M = TypeVar("_M", bound=BaseModel)
_OF_FASTMCP = "fastmcp"
_MIME_TYPE = "text/plain"
_LONGEST_URI = 8_192
_WILDCARD = re.compile(r"\{([^{}?&+#./;*]+)\*\}")


class OfUpstream(BaseModel):
    """What a component of an upstream has besides."""

    caller: InstanceOf[Caller] = Field(exclude=True)
    """What calls its upstream."""
    listed: Any = Field(exclude=True)
    """How its upstream lists it."""
    denied_by: str | None = Field(default=None, exclude=True)
    """Where the operator denies it, or None."""
    capabilities: frozenset[str] | None = Field(default=None, exclude=True)
    """The capabilities that bring it along; None for what the configuration itself has."""

    @classmethod
    def of(cls, caller: Caller, name: str, listed: Any, denied_by: str | None = None) -> OfUpstream:
        """Return the component of what an upstream lists, which was validated when it came.

        FastMCP acts on what stands under its own key in a component's `meta` (whether it is enabled, which app may call
        it): that is this server's to say. What the upstream says there is listed, and nothing else is done with it.

        A tag is a toolset, and bounds go by it: no upstream can put its components among another one's, nor among those
        that the operator's configuration gives a tag.
        """
        told, config = _fastmcp_meta(listed.meta), caller.config
        version, own_tags = told.get("version"), told.get("tags")
        tags = [tag for tag in own_tags if isinstance(tag, str)] if isinstance(own_tags, list) else []
        kept = {key: value for key, value in (listed.meta or {}).items() if key != _OF_FASTMCP}
        if isinstance(groups := kept.get(GROUPS_KEY), list):
            kept[GROUPS_KEY] = [each for each in groups if fold(str(each)) not in caller.operators_tags]
        tool = listed.name if isinstance(listed, mcp_types.Tool) else None
        override = config.overrides.get(tool) if tool is not None else None
        given = {config.name, *config.tags, *(override.tags if override is not None else ())}
        common = {key: getattr(listed, key) for key in ("title", "description", "icons")} | {
            "caller": caller,
            "listed": listed,
            "denied_by": denied_by,
            "meta": kept or None,
            "tags": given.union(tag for tag in tags if fold(tag) not in caller.operators_tags),
            "version": version if isinstance(version, str) and "@" not in version else None,
            "capabilities": _brought_by(config.capabilities, tool),
        }
        return cls.model_construct(**common | cls._own(caller, name, listed))

    @classmethod
    def _own(cls, caller: Caller, name: str, listed: Any) -> dict[str, Any]:
        """Return the fields that components of the kind have by themselves."""
        raise NotImplementedError

    def _as_listed(self, kind: type[_M], **changed: Any) -> _M:
        """Return it as its upstream lists it, but for its tags, and what a transform or the operator may change."""
        component: Any = self
        meta = {key: value for key, value in (component.meta or {}).items() if key != _OF_FASTMCP}
        theirs = {**_fastmcp_meta(self.listed.meta), "tags": sorted(component.tags)}
        common = {key: getattr(component, key) for key in ("title", "description", "icons")}
        listed: _M = self.listed.model_copy(update={**common, "meta": {**meta, _OF_FASTMCP: theirs}, **changed})
        return listed


class UpstreamTool(OfUpstream, ForeignTool):
    """A tool of an upstream."""

    @classmethod
    def _own(cls, caller: Caller, name: str, listed: mcp_types.Tool) -> dict[str, Any]:
        override = caller.config.overrides.get(listed.name, ToolOverride())
        told = {"title": override.title} if override.title else {}
        told |= {} if override.description is None else {"description": override.description}
        same = {key: getattr(listed, key) for key in ("output_schema", "annotations", "execution")}
        return {**told, "name": name, "parameters": listed.input_schema, **same}

    def to_mcp_tool(self, **overrides: Any) -> mcp_types.Tool:
        """Return the tool as its upstream lists it, but for its name, its tags and what the operator says of it."""
        return self._as_listed(
            mcp_types.Tool,
            name=overrides.get("name", self.name),
            input_schema=self.parameters,
            output_schema=self.output_schema,
            annotations=self.annotations,
        )

    @property
    def origin(self) -> ToolOrigin:
        """Where it comes from: its upstream, as the operator's configuration and the upstream itself describe it."""
        return ToolOrigin(self.caller.described, self.listed.name, is_upstream=True)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the upstream's tool."""
        return await self.caller.call_tool(self.listed, arguments)


class UpstreamPrompt(OfUpstream, Prompt):
    """A prompt of an upstream."""

    @classmethod
    def _own(cls, caller: Caller, name: str, listed: mcp_types.Prompt) -> dict[str, Any]:
        arguments = [
            PromptArgument.model_construct(name=each.name, description=each.description, required=bool(each.required))
            for each in listed.arguments or ()
        ]
        return {"name": name, "arguments": arguments}

    def to_mcp_prompt(self, **overrides: Any) -> mcp_types.Prompt:
        """Return the prompt as its upstream lists it, but for its name and tags."""
        return self._as_listed(mcp_types.Prompt, name=overrides.get("name", self.name))

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Get the upstream's prompt."""
        result: PromptResult = await self.caller.ask(GET_PROMPT, name=self.listed.name, arguments=arguments)
        return result

    @property
    def reference(self) -> mcp_types.PromptReference:
        """What the upstream completes arguments of it by."""
        return mcp_types.PromptReference(type="ref/prompt", name=self.listed.name)


class UpstreamResource(OfUpstream, Resource):
    """A resource of an upstream, under its own URI where no other upstream has it."""

    uri: str  # type: ignore[assignment]  # verbatim: `AnyUrl` would write some URIs otherwise
    alias: str = Field(exclude=True)
    """The name that bounds know it by besides its URI: such that no upstream can bear another's."""

    @classmethod
    def _own(cls, caller: Caller, name: str, listed: mcp_types.Resource) -> dict[str, Any]:
        return {"uri": name, "name": listed.name or name, **_readable(caller, listed)}

    def to_mcp_resource(self, **overrides: Any) -> mcp_types.Resource:
        """Return the resource as its upstream lists it, but for its tags, and its URI where another has it."""
        return self._as_listed(mcp_types.Resource, uri=str(overrides.get("uri", self.uri)))

    async def read(self) -> ResourceResult:
        """Read the upstream's resource."""
        result: ResourceResult = await self.caller.ask(READ_RESOURCE, uri=self.listed.uri)
        return result


class UpstreamTemplate(OfUpstream, ResourceTemplate):
    """A resource template of an upstream, under its own URI where no other upstream has it."""

    alias: str = Field(exclude=True)
    """As a resource's."""
    parsed: InstanceOf[UriTemplate] | None = Field(exclude=True)
    """What tells the URIs that it makes from others; None where it makes none that can be told."""

    @classmethod
    def _own(cls, caller: Caller, name: str, listed: mcp_types.ResourceTemplate) -> dict[str, Any]:
        made: dict[str, Any] = {"uri_template": name, "name": listed.name, "parameters": {}, "parsed": _parse(name)}
        # Which values are safe in a path is the upstream's to say: it alone knows what they are used for.
        return {**made, "security": None, **_readable(caller, listed)}

    def to_mcp_template(self, **overrides: Any) -> mcp_types.ResourceTemplate:
        """Return the template as its upstream lists it, but for its tags, and its URI where another has it."""
        uri_template = overrides.get("uri_template", self.uri_template)
        return self._as_listed(mcp_types.ResourceTemplate, uri_template=uri_template)

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the values in a URI that the template makes, or None for another; in time linear in its length."""
        if self.parsed is None or len(uri) > _LONGEST_URI:
            return None
        return self.parsed.match(uri)

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:
        original = original_uri(uri, self.uri_template, self.listed.uri_template)
        result: ResourceResult = await self.caller.ask(READ_RESOURCE, uri=original)
        return result

    @property
    def reference(self) -> mcp_types.ResourceTemplateReference:
        """What the upstream completes values of it by."""
        return mcp_types.ResourceTemplateReference(type="ref/resource", uri=self.listed.uri_template)


def _readable(caller: Caller, listed: mcp_types.Resource | mcp_types.ResourceTemplate) -> dict[str, Any]:
    return {
        "alias": caller.namespace.namespaced(caller.config.name, listed.name),
        "mime_type": listed.mime_type or _MIME_TYPE,
        "annotations": listed.annotations,
    }


def _brought_by(capabilities: Mapping[str, tuple[str, ...]], tool: str | None) -> frozenset[str] | None:
    """Return which capabilities bring a component along: those that want the tool, or all that have the server."""
    if not capabilities:
        return None
    if tool is None:
        return frozenset(capabilities)
    return frozenset(name for name, globs in capabilities.items() if any(fnmatchcase(tool, glob) for glob in globs))


def _fastmcp_meta(meta: Mapping[str, Any] | None) -> Mapping[str, Any]:
    told = (meta or {}).get(_OF_FASTMCP)
    return told if isinstance(told, Mapping) else {}


def _parse(uri_template: str) -> UriTemplate | None:
    """Return a template that is matched without backtracking, FastMCP's own forms included; None for one that is none.

    FastMCP writes `{path*}` for `{+path}`, and repeats a key for `{?tags*}`.
    """
    for form in (uri_template, _WILDCARD.sub(r"{+\1}", uri_template).replace("*", "")):
        try:
            return UriTemplate.parse(form)
        except InvalidUriTemplate:
            continue
    return None
