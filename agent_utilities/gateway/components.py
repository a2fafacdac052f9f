"""An upstream's tools, prompts, resources and templates as components of this server, listed as it lists them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar, TypeVar, cast

import mcp_types
from fastmcp.prompts.base import Prompt, PromptArgument, PromptResult
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.tools.base import ToolResult
from mcp.shared.uri_template import InvalidUriTemplate, UriTemplate
from pydantic import BaseModel, Field, InstanceOf, PrivateAttr, create_model

from agent_utilities.gateway.calls import GET_PROMPT, READ_RESOURCE, Caller
from agent_utilities.gateway.upstreams.config import ToolOverride, UpstreamConfig
from agent_utilities.gateway.upstreams.connections.session import plain
from agent_utilities.gateway.upstreams.names import LONGEST_URI, original_uri
from agent_utilities.protocol.fit import KINDS, PROMPT, RESOURCE, TEMPLATE, TOOL, Fit, Kind, fitted
from agent_utilities.selection.model import fold
from agent_utilities.server.tool_origin import ForeignTool, ToolOrigin
from agent_utilities.server.wire.lists import GROUPS_KEY

_M = TypeVar("_M", bound=BaseModel)
_OF_FASTMCP = "fastmcp"
_MIME_TYPE = "text/plain"
_WILDCARD = re.compile(r"\{([^{}?&+#./;*]+)\*\}")
_FOLDERS = re.compile(r"\{/([\w.]+)\*\}")
_PREFIX = re.compile(r":[1-9]\d{0,3}(?=(,[^{}]*)?\})")


class RelayedDefinition(BaseModel):
    """A definition as its upstream gave it: `item`, beside the protocol's model of it, for whoever reads that."""

    _item: dict[str, Any] = PrivateAttr()
    _fits: dict[bool, Fit] = PrivateAttr(default_factory=dict)

    def give(self, item: dict[str, Any]) -> None:
        """Have it as it is listed."""
        self._item = item

    def fit(self, kind: Kind, *, is_modern: bool) -> Fit:
        """Return what clients of 2026-07-28, or of before, are listed of it."""
        if (fit := self._fits.get(is_modern)) is None:
            fit = self._fits[is_modern] = fitted(kind, self._item, is_modern=is_modern)
        return fit


_DEFINITIONS: dict[str, type[RelayedDefinition]] = {
    kind.method: create_model(f"Relayed{kind.model.__name__}", __base__=cast(Any, (RelayedDefinition, kind.model)))
    for kind in KINDS.values()
}


def _model(kind: Kind, item: Mapping[str, Any], model: type[_M]) -> _M:
    """Return the protocol's model of a component, without what no client can read."""
    fits = (fitted(kind, item, is_modern=is_modern).item for is_modern in (True, False))
    return model.model_validate(next(fit for fit in fits if fit is not None), by_name=False)


class OfUpstream(BaseModel):
    """What a component of an upstream has besides."""

    kind: ClassVar[Kind]
    fields: ClassVar[Mapping[str, str]] = {"title": "title", "description": "description", "icons": "icons"}
    """What a transform or middleware may change, each with its key where it is listed."""
    caller: InstanceOf[Caller] = Field(exclude=True)
    """What calls its upstream."""
    listed: dict[str, Any] = Field(exclude=True)
    """How its upstream lists it."""
    denied_by: str | None = Field(default=None, exclude=True)
    """Where the operator denies it, or None."""
    capabilities: frozenset[str] | None = Field(default=None, exclude=True)
    """The capabilities that bring it along; None for what the configuration itself has."""
    skills: Sequence[str] = Field(default=(), exclude=True)
    """Names of the skills that it is a file of, by which bounds know it too."""
    made: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """What it was made with, by field, and the `definition` that comes to; and a `stamp`, see `ForeignTool`."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field: its definition may be another by it."""
        super().__setattr__(name, value)
        self.made["stamp"] = object()

    @property
    def stamp(self) -> object:
        """What is another object once its definition may be another."""
        return self.made["stamp"]

    @classmethod
    def of(
        cls, caller: Caller, name: str, listed: dict[str, Any], denied_by: str | None = None, skills: Sequence[str] = ()
    ) -> OfUpstream:
        """Return the component of what an upstream lists, of which some client can read something.

        FastMCP acts on what stands under its own key in a component's `meta` (whether it is enabled, which app may call
        it): that is this server's to say. What the upstream says there is listed, and nothing else is done with it.

        A tag is a toolset, and bounds go by it: no upstream can put its components among another one's, nor among those
        that the operator's configuration gives a tag.
        """
        model: Any = _model(cls.kind, listed, cls.kind.model)
        told, config = _fastmcp_meta(model.meta), caller.config
        version, own_tags = told.get("version"), told.get("tags")
        tags = [tag for tag in own_tags if isinstance(tag, str)] if isinstance(own_tags, list) else []
        kept = {key: value for key, value in (model.meta or {}).items() if key != _OF_FASTMCP}
        if isinstance(groups := kept.get(GROUPS_KEY), list):
            kept[GROUPS_KEY] = [each for each in groups if fold(str(each)) not in caller.operators_tags]
        tool = model.name if isinstance(model, mcp_types.Tool) else None
        override = config.overrides.get(tool) if tool is not None else None
        given = {config.name, *config.tags, *(override.tags if override is not None else ())}
        common = {key: getattr(model, key) for key in ("title", "description", "icons")} | {
            "caller": caller,
            "listed": listed,
            "denied_by": denied_by,
            "skills": skills,
            "meta": kept or None,
            "tags": given.union(tag for tag in tags if fold(tag) not in caller.operators_tags),
            "version": version if isinstance(version, str) and "@" not in version else None,
            "capabilities": _brought_by(config.capabilities, tool),
        }
        made = common | cls._own(caller, name, model)
        made_with = {key: made.get(key) for key in (*cls.fields, "meta", "tags")}
        return cls.model_construct(**made, made={**made_with, "stamp": object()})

    @classmethod
    def _own(cls, caller: Caller, name: str, model: Any) -> dict[str, Any]:
        """Return the fields that components of the kind have by themselves."""
        raise NotImplementedError

    def _definition(self, called: str) -> Any:
        """Return it as its upstream lists it, but for its name or URI, its tags, and what was changed of it here."""
        component: Any = self
        fields = self.made.keys() - {"definition", "stamp"}
        changed = {key for key in fields if getattr(self, key) is not self.made[key]}
        before = self.made.get("definition")
        if before is not None and not changed and before[0] == called:
            return before[1]
        told = {self.fields[key]: plain(getattr(self, key)) for key in changed if key in self.fields}
        meta = {key: value for key, value in (component.meta or {}).items() if key != _OF_FASTMCP}
        theirs = {**_fastmcp_meta(self.listed.get("_meta")), "tags": sorted(component.tags)}
        item = {**self.listed, **self._overridden(), **told, self.kind.key: called}
        item = {key: value for key, value in item.items() if key not in told or value is not None}
        item["_meta"] = {**meta, _OF_FASTMCP: theirs}
        definition = _model(self.kind, item, _DEFINITIONS[self.kind.method])
        definition.give(item)
        if not changed:
            self.made["definition"] = called, definition
        return definition

    def _overridden(self) -> Mapping[str, Any]:
        """Return what the operator's configuration says in its upstream's place."""
        return {}


def operators_tags(configs: Iterable[UpstreamConfig]) -> frozenset[str]:
    """Return the tags that are given by configurations, folded: no upstream can give one to what it lists."""
    tags: set[str] = set()
    for config in configs:
        tags.update((config.name, *config.tags))
        tags.update(tag for override in config.overrides.values() for tag in override.tags)
    return frozenset(map(fold, tags))


class UpstreamTool(OfUpstream, ForeignTool):
    """A tool of an upstream."""

    kind = TOOL
    fields = {
        **OfUpstream.fields,
        "parameters": "inputSchema",
        "output_schema": "outputSchema",
        "annotations": "annotations",
    }

    @classmethod
    def _own(cls, caller: Caller, name: str, model: mcp_types.Tool) -> dict[str, Any]:
        told = _told_by_operator(caller, model.name)
        # FastMCP makes other results of those of a tool whose output is no object; ours are handed on as they come.
        is_object = isinstance(model.output_schema, dict) and model.output_schema.get("type") == "object"
        same = {
            "annotations": model.annotations,
            "execution": model.execution,
            "output_schema": model.output_schema if is_object else None,
        }
        return {**told, "name": name, "parameters": model.input_schema, **same}

    def _overridden(self) -> Mapping[str, Any]:
        return _told_by_operator(self.caller, self.listed["name"])

    def to_mcp_tool(self, **overrides: Any) -> mcp_types.Tool:
        """Return the tool as its upstream lists it, but for its name, its tags and what the operator says of it."""
        return cast(mcp_types.Tool, self._definition(overrides.get("name", self.name)))

    @property
    def origin(self) -> ToolOrigin:
        """Where it comes from: its upstream, as the operator's configuration and the upstream itself describe it."""
        return ToolOrigin(self.caller.described, self.listed["name"], is_upstream=True)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the upstream's tool."""
        return await self.caller.call_tool(self.listed, arguments)


def _told_by_operator(caller: Caller, tool: str) -> dict[str, Any]:
    """Return the title and description that the operator gives a tool, where they do."""
    override = caller.config.overrides.get(tool, ToolOverride())
    told = {"title": override.title} if override.title else {}
    return told | ({} if override.description is None else {"description": override.description})


class UpstreamPrompt(OfUpstream, Prompt):
    """A prompt of an upstream."""

    kind = PROMPT

    @classmethod
    def _own(cls, caller: Caller, name: str, model: mcp_types.Prompt) -> dict[str, Any]:
        arguments = [
            PromptArgument.model_construct(name=each.name, description=each.description, required=bool(each.required))
            for each in model.arguments or ()
        ]
        return {"name": name, "arguments": arguments}

    def to_mcp_prompt(self, **overrides: Any) -> mcp_types.Prompt:
        """Return the prompt as its upstream lists it, but for its name and tags."""
        return cast(mcp_types.Prompt, self._definition(overrides.get("name", self.name)))

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        """Get the upstream's prompt."""
        more = {} if arguments is None else {"arguments": arguments}
        return await self.caller.ask(GET_PROMPT, name=self.listed["name"], **more)

    @property
    def reference(self) -> mcp_types.PromptReference:
        """What the upstream completes arguments of it by."""
        return mcp_types.PromptReference(type="ref/prompt", name=self.listed["name"])


class UpstreamResource(OfUpstream, Resource):
    """A resource of an upstream, under its own URI where no other upstream has it."""

    kind = RESOURCE
    uri: str  # type: ignore[assignment]  # verbatim: `AnyUrl` would write some URIs otherwise
    alias: str = Field(exclude=True)
    """The name that bounds know it by besides its URI: such that no upstream can bear another's."""

    @classmethod
    def _own(cls, caller: Caller, name: str, model: mcp_types.Resource) -> dict[str, Any]:
        return {"uri": name, "name": model.name or name, **_readable(caller, model)}

    def to_mcp_resource(self, **overrides: Any) -> mcp_types.Resource:
        """Return the resource as its upstream lists it, but for its tags, and its URI where another has it."""
        return cast(mcp_types.Resource, self._definition(str(overrides.get("uri", self.uri))))

    async def read(self) -> ResourceResult:
        """Read the upstream's resource."""
        return await self.caller.ask(READ_RESOURCE, uri=self.listed["uri"], here=self.uri)

    def original(self, uri: str) -> str:
        """Return what its upstream calls it."""
        return str(self.listed["uri"])

    @property
    def reference(self) -> mcp_types.ResourceTemplateReference:
        """What the upstream knows it by, where a value of it is completed."""
        return mcp_types.ResourceTemplateReference(type="ref/resource", uri=self.listed["uri"])


class UpstreamTemplate(OfUpstream, ResourceTemplate):
    """A resource template of an upstream, under its own URI where no other upstream has it."""

    kind = TEMPLATE
    alias: str = Field(exclude=True)
    """As a resource's."""
    parsed: InstanceOf[UriTemplate] | None = Field(exclude=True)
    """What tells the URIs that it makes from others; None where it makes none that can be told."""
    fits_all: bool = Field(default=False, exclude=True)
    """Whether it takes whatever begins as it does, since nobody else has it."""

    @classmethod
    def _own(cls, caller: Caller, name: str, model: mcp_types.ResourceTemplate) -> dict[str, Any]:
        made: dict[str, Any] = {"uri_template": name, "name": model.name, "parameters": {}, "parsed": _parse(name)}
        # Which values are safe in a path is the upstream's to say: it alone knows what they are used for.
        return {**made, "security": None, **_readable(caller, model)}

    def to_mcp_template(self, **overrides: Any) -> mcp_types.ResourceTemplate:
        """Return the template as its upstream lists it, but for its tags, and its URI where another has it."""
        return cast(mcp_types.ResourceTemplate, self._definition(overrides.get("uri_template", self.uri_template)))

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the values in a URI that the template makes, or None for another; in time linear in its length."""
        if self.fits_all:
            return {} if self.begins(uri) else None
        if self.parsed is None or len(uri) > LONGEST_URI:
            return None
        return self.parsed.match(uri)

    @property
    def beginning(self) -> str:
        """What stands before its first value."""
        return self.uri_template.partition("{")[0]

    @property
    def notice(self) -> str:
        """What is told of one whose URIs can't be told from others."""
        told = (
            f"upstream {self.caller.config.name!r}: which URIs the template {self.uri_template!r} makes can't be told"
        )
        tried = f"what begins with {self.beginning!r} and nobody else has" if ":" in self.beginning else "nothing"
        return f"{told}; {tried} is read by it"

    def begins(self, uri: str) -> bool:
        """Whether a URI begins as those that it makes, with a scheme at least."""
        return ":" in self.beginning and uri.startswith(self.beginning) and len(uri) <= LONGEST_URI

    def original(self, uri: str) -> str:
        """Return what its upstream calls a URI that it makes here."""
        return original_uri(uri, self.uri_template, self.listed["uriTemplate"])

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:
        return await self.caller.ask(READ_RESOURCE, uri=self.original(uri), here=uri)

    @property
    def reference(self) -> mcp_types.ResourceTemplateReference:
        """What the upstream completes values of it by."""
        return mcp_types.ResourceTemplateReference(type="ref/resource", uri=self.listed["uriTemplate"])


def _readable(caller: Caller, model: mcp_types.Resource | mcp_types.ResourceTemplate) -> dict[str, Any]:
    return {
        "alias": caller.namespace.namespaced(caller.config.name, model.name),
        "mime_type": model.mime_type or _MIME_TYPE,
        "annotations": model.annotations,
    }


def _brought_by(capabilities: Mapping[str, tuple[str, ...]], tool: str | None) -> frozenset[str] | None:
    """Return which capabilities bring a component along: those that want the tool, or all that have the server."""
    if not capabilities:
        return None
    if tool is None:
        return frozenset(capabilities)
    return frozenset(name for name, globs in capabilities.items() if any(fnmatchcase(tool, glob) for glob in globs))


def _fastmcp_meta(meta: Any) -> Mapping[str, Any]:
    told = meta.get(_OF_FASTMCP) if isinstance(meta, Mapping) else None
    return told if isinstance(told, Mapping) else {}


def _parse(uri_template: str) -> UriTemplate | None:
    """Return a template that is matched without backtracking, FastMCP's own forms included; None for one that is none.

    FastMCP writes `{path*}` for `{+path}`, and repeats a key for `{?tags*}`. `{id:3}` is taken for `{id}`, whose values
    are at least as many: which of them there are is the upstream's to say.
    """
    plain = _FOLDERS.sub(r"/{+\1}", _PREFIX.sub("", _WILDCARD.sub(r"{+\1}", uri_template))).replace("*", "")
    for form in (uri_template, plain):
        try:
            return UriTemplate.parse(form)
        except InvalidUriTemplate:
            continue
    return None
