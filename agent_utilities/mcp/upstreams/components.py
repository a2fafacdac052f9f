"""An upstream's tools, prompts, resources and templates as components of this server, listed as it lists them."""

from __future__ import annotations

import re
from typing import Any

import mcp_types
from fastmcp.prompts.base import Prompt, PromptArgument, PromptResult
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.tools.base import ToolResult
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from pydantic import Field, InstanceOf

from agent_utilities.mcp.tool_origin import ForeignTool, ToolOrigin
from agent_utilities.mcp.upstreams.calls import Caller
from agent_utilities.mcp.upstreams.traits import common, told_of
from agent_utilities.upstream.config import ToolOverride
from agent_utilities.upstream.uris import original_uri

_NO_OVERRIDE = ToolOverride()
_MIME_TYPE = "text/plain"
_LONGEST_URI = 8_192
_WILDCARD = re.compile(r"\{([^{}?&+#./;*]+)\*\}")


class UpstreamTool(ForeignTool):
    """A tool of an upstream."""

    caller: InstanceOf[Caller] = Field(exclude=True)
    """What calls its upstream."""
    listed: mcp_types.Tool = Field(exclude=True)
    """How its upstream lists it."""
    denied_by: str | None = Field(default=None, exclude=True)
    """Where the operator denies it, or None."""
    capabilities: frozenset[str] | None = Field(default=None, exclude=True)
    """The capabilities that bring it along; None for what the configuration itself has."""

    @classmethod
    def of(cls, caller: Caller, name: str, listed: mcp_types.Tool, denied_by: str | None = None) -> UpstreamTool:
        """Return the component of a tool.

        Args:
            caller: calls the upstream.
            name: the tool's name here.
            listed: the tool as the upstream lists it; it was validated when it came.
            denied_by: where the operator denies it, or None.
        """
        override = caller.config.overrides.get(listed.name, _NO_OVERRIDE)
        return cls.model_construct(
            caller=caller,
            listed=listed,
            denied_by=denied_by,
            name=name,
            title=override.title or listed.title,
            description=listed.description if override.description is None else override.description,
            parameters=listed.input_schema,
            output_schema=listed.output_schema,
            annotations=listed.annotations,
            execution=listed.execution,
            icons=listed.icons,
            **common(caller, listed.meta, override.tags, listed.name),
        )

    def to_mcp_tool(self, **overrides: Any) -> mcp_types.Tool:
        """Return the tool as its upstream lists it, but for its name, its tags and what the operator says of it."""
        update = {
            **told_of(self, self.listed.meta),
            "name": overrides.get("name", self.name),
            "input_schema": self.parameters,
            "output_schema": self.output_schema,
            "annotations": self.annotations,
        }
        return self.listed.model_copy(update=update)

    @property
    def origin(self) -> ToolOrigin:
        """Where it comes from: its upstream, as the operator's configuration and the upstream itself describe it."""
        return ToolOrigin(self.caller.described, self.listed.name, is_upstream=True)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the upstream's tool."""
        return await self.caller.call_tool(self.listed, arguments)


class UpstreamPrompt(Prompt):
    """A prompt of an upstream."""

    caller: InstanceOf[Caller] = Field(exclude=True)
    """What calls its upstream."""
    listed: mcp_types.Prompt = Field(exclude=True)
    """How its upstream lists it."""
    denied_by: str | None = Field(default=None, exclude=True)
    """Where the operator denies it, or None."""
    capabilities: frozenset[str] | None = Field(default=None, exclude=True)
    """The capabilities that bring it along; None for what the configuration itself has."""

    @classmethod
    def of(cls, caller: Caller, name: str, listed: mcp_types.Prompt, denied_by: str | None = None) -> UpstreamPrompt:
        """Return the component of a prompt; see `UpstreamTool.of`."""
        return cls.model_construct(
            caller=caller,
            listed=listed,
            denied_by=denied_by,
            name=name,
            title=listed.title,
            description=listed.description,
            arguments=[
                PromptArgument.model_construct(
                    name=each.name, description=each.description, required=bool(each.required)
                )
                for each in listed.arguments or ()
            ],
            icons=listed.icons,
            **common(caller, listed.meta),
        )

    def to_mcp_prompt(self, **overrides: Any) -> mcp_types.Prompt:
        """Return the prompt as its upstream lists it, but for its name and tags."""
        update = {**told_of(self, self.listed.meta), "name": overrides.get("name", self.name)}
        return self.listed.model_copy(update=update)

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Get the upstream's prompt."""
        return await self.caller.get_prompt(self.listed.name, arguments)

    @property
    def reference(self) -> mcp_types.PromptReference:
        """What the upstream completes arguments of it by."""
        return mcp_types.PromptReference(type="ref/prompt", name=self.listed.name)


class UpstreamResource(Resource):
    """A resource of an upstream, under its own URI where no other upstream has it."""

    uri: str  # type: ignore[assignment]  # verbatim: `AnyUrl` would write some URIs otherwise
    caller: InstanceOf[Caller] = Field(exclude=True)
    """What calls its upstream."""
    listed: mcp_types.Resource = Field(exclude=True)
    """How its upstream lists it."""
    denied_by: str | None = Field(default=None, exclude=True)
    """Where the operator denies it, or None."""
    capabilities: frozenset[str] | None = Field(default=None, exclude=True)
    """The capabilities that bring it along; None for what the configuration itself has."""
    alias: str = Field(exclude=True)
    """The name that bounds know it by besides its URI: such that no upstream can bear another's."""

    @classmethod
    def of(cls, caller: Caller, uri: str, listed: mcp_types.Resource, denied_by: str | None = None) -> UpstreamResource:
        """Return the component of a resource; see `UpstreamTool.of`."""
        return cls.model_construct(
            caller=caller,
            listed=listed,
            denied_by=denied_by,
            alias=caller.namespaced(listed.name),
            uri=uri,
            name=listed.name or uri,
            title=listed.title,
            description=listed.description,
            mime_type=listed.mime_type or _MIME_TYPE,
            annotations=listed.annotations,
            icons=listed.icons,
            **common(caller, listed.meta),
        )

    def to_mcp_resource(self, **overrides: Any) -> mcp_types.Resource:
        """Return the resource as its upstream lists it, but for its tags, and its URI where another has it."""
        update = {**told_of(self, self.listed.meta), "uri": str(overrides.get("uri", self.uri))}
        return self.listed.model_copy(update=update)

    async def read(self) -> ResourceResult:
        """Read the upstream's resource."""
        return await self.caller.read_resource(self.listed.uri)


class UpstreamTemplate(ResourceTemplate):
    """A resource template of an upstream, under its own URI where no other upstream has it."""

    caller: InstanceOf[Caller] = Field(exclude=True)
    """What calls its upstream."""
    listed: mcp_types.ResourceTemplate = Field(exclude=True)
    """How its upstream lists it."""
    denied_by: str | None = Field(default=None, exclude=True)
    """Where the operator denies it, or None."""
    capabilities: frozenset[str] | None = Field(default=None, exclude=True)
    """The capabilities that bring it along; None for what the configuration itself has."""
    alias: str = Field(exclude=True)
    """The name that bounds know it by besides its URI: such that no upstream can bear another's."""
    parsed: InstanceOf[UriTemplate] | None = Field(exclude=True)
    """What tells the URIs that it makes from others; None where it makes none that can be told."""

    @classmethod
    def of(
        cls, caller: Caller, uri_template: str, listed: mcp_types.ResourceTemplate, denied_by: str | None = None
    ) -> UpstreamTemplate:
        """Return the component of a template; see `UpstreamTool.of`.

        Which values are safe in a path is the upstream's to say: it alone knows what they are used for.
        """
        return cls.model_construct(
            caller=caller,
            listed=listed,
            denied_by=denied_by,
            alias=caller.namespaced(listed.name),
            uri_template=uri_template,
            name=listed.name,
            title=listed.title,
            description=listed.description,
            mime_type=listed.mime_type or _MIME_TYPE,
            parameters={},
            annotations=listed.annotations,
            icons=listed.icons,
            security=None,
            parsed=_parse(uri_template),
            **common(caller, listed.meta),
        )

    def to_mcp_template(self, **overrides: Any) -> mcp_types.ResourceTemplate:
        """Return the template as its upstream lists it, but for its tags, and its URI where another has it."""
        update = {**told_of(self, self.listed.meta), "uri_template": overrides.get("uri_template", self.uri_template)}
        return self.listed.model_copy(update=update)

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the values in a URI that the template makes, or None for another; in time linear in its length."""
        if self.parsed is None or len(uri) > _LONGEST_URI:
            return None
        return self.parsed.match(uri)

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:
        return await self.caller.read_resource(original_uri(uri, self.uri_template, self.listed.uri_template))

    @property
    def reference(self) -> mcp_types.ResourceTemplateReference:
        """What the upstream completes values of it by."""
        return mcp_types.ResourceTemplateReference(type="ref/resource", uri=self.listed.uri_template)


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
