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
from agent_utilities.protocol.fit import GROUPS_KEY, KINDS, PROMPT, RESOURCE, TEMPLATE, TOOL, Fit, Kind, fitted
from agent_utilities.seam.components import ForeignTool, ToolOrigin
from agent_utilities.selection.model import fold

_M = TypeVar("_M", bound=BaseModel)
_OF_FASTMCP = "fastmcp"
_MIME_TYPE = "text/plain"
_WILDCARD = re.compile(r"\{([^{}?&+#./;*]+)\*\}")
_FOLDERS = re.compile(r"\{/([\w.]+)\*\}")
_PREFIX = re.compile(r":[1-9]\d{0,3}(?=(,[^{}]*)?\})")


class RelayedDefinition(BaseModel):
    """The protocol's model of a definition, with the definition itself as its upstream sent it."""

    _item: dict[str, Any] = PrivateAttr()
    _fits: dict[bool, Fit] = PrivateAttr(default_factory=dict)

    def give(self, item: dict[str, Any]) -> None:
        self._item = item

    def fit(self, kind: Kind, *, is_modern: bool) -> Fit:
        """Return the definition for clients of 2026-07-28, or for older ones."""
        if (fit := self._fits.get(is_modern)) is None:
            fit = self._fits[is_modern] = fitted(kind, self._item, is_modern=is_modern)
        return fit


_DEFINITIONS: dict[str, type[RelayedDefinition]] = {
    kind.method: create_model(f"Relayed{kind.model.__name__}", __base__=cast(Any, (RelayedDefinition, kind.model)))
    for kind in KINDS.values()
}


def _model(kind: Kind, item: Mapping[str, Any], model: type[_M]) -> _M:
    """Return the protocol's model of a component, without the parts that no client can read."""
    fits = (fitted(kind, item, is_modern=is_modern).item for is_modern in (True, False))
    return model.model_validate(next(fit for fit in fits if fit is not None), by_name=False)


class OfUpstream(BaseModel):
    """A component of an upstream: its fields beside FastMCP's, and the definition that callers are listed."""

    kind: ClassVar[Kind]
    fields: ClassVar[Mapping[str, str]] = {"title": "title", "description": "description", "icons": "icons"}
    """The fields that a transform or middleware may change, each with its key in the listed definition."""
    caller: InstanceOf[Caller] = Field(exclude=True)
    listed: dict[str, Any] = Field(exclude=True)
    """The definition as its upstream lists it."""
    denied_by: str | None = Field(default=None, exclude=True)
    """Where the operator denies it, or None."""
    capabilities: frozenset[str] | None = Field(default=None, exclude=True)
    """The capabilities that bring it along; None for a component of the configuration itself."""
    skills: Sequence[str] = Field(default=(), exclude=True)
    """Names of the skills that it is a file of; bounds know it by these too."""
    made: dict[str, Any] = Field(default_factory=dict, exclude=True)
    """The values it was made with, by field, the `definition` made of them, and a `stamp`, see `ForeignTool`."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field, and renew the stamp, since the definition may change by it."""
        super().__setattr__(name, value)
        self.made["stamp"] = object()

    @property
    def stamp(self) -> object:
        """An object that is replaced whenever the definition may have changed."""
        return self.made["stamp"]

    @classmethod
    def of(
        cls, caller: Caller, name: str, listed: dict[str, Any], denied_by: str | None = None, skills: Sequence[str] = ()
    ) -> OfUpstream:
        """Return the component for a definition that an upstream lists, and that some client can read.

        FastMCP acts on its own key in a component's `meta` (whether it is enabled, which app may call it), which only
        this server may set. The upstream's value of that key is listed, and has no effect here.

        A tag is a toolset, and bounds go by it: no upstream can put its components among another one's, nor among those
        that the operator's configuration tags.
        """
        model: Any = _model(cls.kind, listed, cls.kind.model)
        theirs, config = _fastmcp_meta(model.meta), caller.config
        version, own_tags = theirs.get("version"), theirs.get("tags")
        tags = [tag for tag in own_tags if isinstance(tag, str)] if isinstance(own_tags, list) else []
        kept = {key: value for key, value in (model.meta or {}).items() if key != _OF_FASTMCP}
        if isinstance(groups := kept.get(GROUPS_KEY), list):
            kept[GROUPS_KEY] = [each for each in groups if fold(str(each)) not in caller.operators_tags]
        tool = model.name if isinstance(model, mcp_types.Tool) else None
        override = config.overrides.get(tool) if tool is not None else None
        operators = {config.name, *config.tags, *(override.tags if override is not None else ())}
        common = {key: getattr(model, key) for key in ("title", "description", "icons")} | {
            "caller": caller,
            "listed": listed,
            "denied_by": denied_by,
            "skills": skills,
            "meta": kept or None,
            "tags": operators.union(tag for tag in tags if fold(tag) not in caller.operators_tags),
            "version": version if isinstance(version, str) and "@" not in version else None,
            "capabilities": _brought_by(config.capabilities, tool),
        }
        made = common | cls._own(caller, name, model)
        made_with = {key: made.get(key) for key in (*cls.fields, "meta", "tags")}
        return cls.model_construct(**made, made={**made_with, "stamp": object()})

    @classmethod
    def _own(cls, caller: Caller, name: str, model: Any) -> dict[str, Any]:
        """Return the fields that only components of this kind have."""
        raise NotImplementedError

    def _definition(self, called: str) -> Any:
        """Return the definition that callers see: the upstream's, with its name or URI, tags and changes made here."""
        component: Any = self
        fields = self.made.keys() - {"definition", "stamp"}
        changed = {key for key in fields if getattr(self, key) is not self.made[key]}
        before = self.made.get("definition")
        if before is not None and not changed and before[0] == called:
            return before[1]
        changes = {self.fields[key]: plain(getattr(self, key)) for key in changed if key in self.fields}
        meta = {key: value for key, value in (component.meta or {}).items() if key != _OF_FASTMCP}
        theirs = {**_fastmcp_meta(self.listed.get("_meta")), "tags": sorted(component.tags)}
        item = {**self.listed, **self._overridden(), **changes, self.kind.key: called}
        item = {key: value for key, value in item.items() if key not in changes or value is not None}
        item["_meta"] = {**meta, _OF_FASTMCP: theirs}
        definition = _model(self.kind, item, _DEFINITIONS[self.kind.method])
        definition.give(item)
        if not changed:
            self.made["definition"] = called, definition
        return definition

    def _overridden(self) -> Mapping[str, Any]:
        """Return the fields that the operator's configuration overrides."""
        return {}


def operators_tags(configs: Iterable[UpstreamConfig]) -> frozenset[str]:
    """Return the tags that configurations assign, folded: no upstream can put one on its own components."""
    tags: set[str] = set()
    for config in configs:
        tags.update((config.name, *config.tags))
        tags.update(tag for override in config.overrides.values() for tag in override.tags)
    return frozenset(map(fold, tags))


class UpstreamTool(OfUpstream, ForeignTool):
    kind = TOOL
    fields = {
        **OfUpstream.fields,
        "parameters": "inputSchema",
        "output_schema": "outputSchema",
        "annotations": "annotations",
    }

    @classmethod
    def _own(cls, caller: Caller, name: str, model: mcp_types.Tool) -> dict[str, Any]:
        # FastMCP rewrites results of a tool whose output is no object; ours are forwarded as they come.
        is_object = isinstance(model.output_schema, dict) and model.output_schema.get("type") == "object"
        same = {
            "annotations": model.annotations,
            "execution": model.execution,
            "output_schema": model.output_schema if is_object else None,
        }
        return {**_override(caller, model.name), "name": name, "parameters": model.input_schema, **same}

    def _overridden(self) -> Mapping[str, Any]:
        return _override(self.caller, self.listed["name"])

    def to_mcp_tool(self, **overrides: Any) -> mcp_types.Tool:
        return cast(mcp_types.Tool, self._definition(overrides.get("name", self.name)))

    @property
    def origin(self) -> ToolOrigin:
        """The upstream that it comes from, as the operator's configuration and the upstream itself describe it."""
        return ToolOrigin(self.caller.described, self.listed["name"], is_upstream=True)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return await self.caller.call_tool(self.listed, arguments)


def _override(caller: Caller, tool: str) -> dict[str, Any]:
    """Return the title and description of a tool that the operator's configuration sets, if any."""
    override = caller.config.overrides.get(tool, ToolOverride())
    title = {"title": override.title} if override.title else {}
    return title | ({} if override.description is None else {"description": override.description})


class UpstreamPrompt(OfUpstream, Prompt):
    kind = PROMPT

    @classmethod
    def _own(cls, caller: Caller, name: str, model: mcp_types.Prompt) -> dict[str, Any]:
        arguments = [
            PromptArgument.model_construct(name=each.name, description=each.description, required=bool(each.required))
            for each in model.arguments or ()
        ]
        return {"name": name, "arguments": arguments}

    def to_mcp_prompt(self, **overrides: Any) -> mcp_types.Prompt:
        return cast(mcp_types.Prompt, self._definition(overrides.get("name", self.name)))

    async def render(self, arguments: dict[str, Any] | None = None) -> PromptResult:
        more = {} if arguments is None else {"arguments": arguments}
        return await self.caller.ask(GET_PROMPT, name=self.listed["name"], **more)

    @property
    def reference(self) -> mcp_types.PromptReference:
        """The reference by which the upstream completes its arguments."""
        return mcp_types.PromptReference(type="ref/prompt", name=self.listed["name"])


class UpstreamReadable(OfUpstream):
    """A resource or template of an upstream, under its own URI where no other upstream has it."""

    alias: str = Field(exclude=True)
    """The name that bounds know it by beside its URI; no upstream can have another one's."""

    @classmethod
    def _own(cls, caller: Caller, name: str, model: Any) -> dict[str, Any]:
        alias = caller.namespace.namespaced(caller.config.name, model.name)
        return {"alias": alias, "mime_type": model.mime_type or _MIME_TYPE, "annotations": model.annotations}

    def original(self, uri: str) -> str:
        """Return the upstream's own URI for a URI here."""
        raise NotImplementedError

    @property
    def reference(self) -> mcp_types.ResourceTemplateReference:
        """The reference by which the upstream completes its values."""
        return mcp_types.ResourceTemplateReference(type="ref/resource", uri=self.listed[self.kind.key])


class UpstreamResource(UpstreamReadable, Resource):
    kind = RESOURCE
    uri: str  # type: ignore[assignment]  # verbatim: `AnyUrl` would write some URIs otherwise

    @classmethod
    def _own(cls, caller: Caller, name: str, model: Any) -> dict[str, Any]:
        return {"uri": name, "name": model.name or name, **super()._own(caller, name, model)}

    def to_mcp_resource(self, **overrides: Any) -> mcp_types.Resource:
        return cast(mcp_types.Resource, self._definition(str(overrides.get("uri", self.uri))))

    async def read(self) -> ResourceResult:
        return await self.caller.ask(READ_RESOURCE, uri=self.listed["uri"], here=self.uri)

    def original(self, uri: str) -> str:
        return str(self.listed["uri"])


class UpstreamTemplate(UpstreamReadable, ResourceTemplate):
    kind = TEMPLATE
    parsed: InstanceOf[UriTemplate] | None = Field(exclude=True)
    """The matcher of its URIs; None where they can't be told from others."""
    fits_all: bool = Field(default=False, exclude=True)
    """Whether it matches every URI with its beginning, since nothing else has that URI."""

    @classmethod
    def _own(cls, caller: Caller, name: str, model: Any) -> dict[str, Any]:
        made: dict[str, Any] = {"uri_template": name, "name": model.name, "parameters": {}, "parsed": _parse(name)}
        # Only the upstream knows which values are safe in a path.
        return {**made, "security": None, **super()._own(caller, name, model)}

    def to_mcp_template(self, **overrides: Any) -> mcp_types.ResourceTemplate:
        return cast(mcp_types.ResourceTemplate, self._definition(overrides.get("uri_template", self.uri_template)))

    def matches(self, uri: str) -> dict[str, Any] | None:
        """Return the values in a URI of the template, or None for another URI; in time linear in its length."""
        if self.fits_all:
            return {} if self.begins(uri) else None
        if self.parsed is None or len(uri) > LONGEST_URI:
            return None
        return self.parsed.match(uri)

    @property
    def beginning(self) -> str:
        """The text before its first value."""
        return self.uri_template.partition("{")[0]

    @property
    def notice(self) -> str:
        """The notice for a template whose URIs can't be told from others."""
        name, template = self.caller.config.name, self.uri_template
        tried = f"what begins with {self.beginning!r} and nobody else has" if ":" in self.beginning else "nothing"
        return f"upstream {name!r}: which URIs the template {template!r} makes can't be told; {tried} is read by it"

    def begins(self, uri: str) -> bool:
        """Whether a URI has the template's beginning, which includes a scheme."""
        return ":" in self.beginning and uri.startswith(self.beginning) and len(uri) <= LONGEST_URI

    def original(self, uri: str) -> str:
        return original_uri(uri, self.uri_template, self.listed["uriTemplate"])

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:
        return await self.caller.ask(READ_RESOURCE, uri=self.original(uri), here=uri)


def _brought_by(capabilities: Mapping[str, tuple[str, ...]], tool: str | None) -> frozenset[str] | None:
    """Return the capabilities that bring a component along: those that want the tool, or all that have the server."""
    if not capabilities:
        return None
    if tool is None:
        return frozenset(capabilities)
    return frozenset(name for name, globs in capabilities.items() if any(fnmatchcase(tool, glob) for glob in globs))


def _fastmcp_meta(meta: Any) -> Mapping[str, Any]:
    value = meta.get(_OF_FASTMCP) if isinstance(meta, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _parse(uri_template: str) -> UriTemplate | None:
    """Return a template that matches without backtracking, FastMCP's own forms included; None for an invalid one.

    FastMCP writes `{path*}` for `{+path}`, and repeats a key for `{?tags*}`. `{id:3}` is read as `{id}`, which matches
    more: the upstream decides which of these URIs it has.
    """
    plain = _FOLDERS.sub(r"/{+\1}", _PREFIX.sub("", _WILDCARD.sub(r"{+\1}", uri_template))).replace("*", "")
    for form in (uri_template, plain):
        try:
            return UriTemplate.parse(form)
        except InvalidUriTemplate:
            continue
    return None
