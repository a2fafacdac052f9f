"""FastMCP's alternate constructors make servers whose surface is bounded like any other's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import mypy.api
import pytest
from fastmcp import Client, FastMCP
from mcp_types import Tool, ToolAnnotations
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from agent_utilities import AgentServer
from tests.every import every
from tests.server.servers import tool_names

pytestmark = pytest.mark.anyio
_ANSWER = {"200": {"description": "ok", "content": {"application/json": {"schema": {"type": "object"}}}}}
SPEC = {
    "openapi": "3.1.0",
    "info": {"title": "orders", "version": "1"},
    "paths": {f"/{name}": {"get": {"operationId": name, "responses": _ANSWER}} for name in ("show", "wipe")},
}


async def _answer(request: Request) -> JSONResponse:
    return JSONResponse({"path": request.url.path})


class Api(Starlette):
    """What `from_fastapi` asks of a FastAPI application: a title, and its specification."""

    title = "orders"

    def openapi(self) -> dict[str, Any]:
        """Return the specification."""
        return SPEC


API = Api(routes=[Route("/show", _answer), Route("/wipe", _answer)])


def from_openapi(**options: Any) -> AgentServer:
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=API), base_url="http://orders")
    return AgentServer.from_openapi(SPEC, client=client, name="orders", **options)


def from_fastapi(**options: Any) -> AgentServer:
    return AgentServer.from_fastapi(API, **options)


def as_proxy(**options: Any) -> AgentServer:
    upstream = FastMCP("upstream")
    upstream.tool(lambda: {"path": "/show"}, name="show")
    upstream.tool(lambda: {"path": "/wipe"}, name="wipe")
    return AgentServer.as_proxy(upstream, "orders", **options)


@every("made", [from_openapi, from_fastapi, as_proxy])
async def test_its_operators_bounds_hold(made: Callable[..., AgentServer]) -> None:
    server = made(environ={"MCP_GRAPH": "off", "MCP_DISABLED_TOOLS": "wipe"})
    assert (type(server), server.name) == (AgentServer, "orders")
    async with Client(server) as client:
        assert await tool_names(client) == ["show"]
        assert (await client.call_tool("show")).structured_content == {"path": "/show"}
        refused = await client.call_tool("wipe", raise_on_error=False)
        assert refused.content[0].text == "Unknown tool: 'wipe'"


METHODS = ("get", "head", "options", "put", "delete", "post", "patch")
OPERATIONS = {
    "openapi": "3.1.0",
    "info": {"title": "orders", "version": "1"},
    "paths": {"/order": {method: {"operationId": method, "responses": _ANSWER} for method in METHODS}},
}
READ = ["get", "head", "options"]


class OtherApi(Api):
    """The same of an application with an operation of each method."""

    def openapi(self) -> dict[str, Any]:
        """Return the specification."""
        return OPERATIONS


def as_api(**options: Any) -> AgentServer:
    return AgentServer.from_openapi(OPERATIONS, httpx2.AsyncClient(base_url="http://orders"), **options)


def as_app(**options: Any) -> AgentServer:
    return AgentServer.from_fastapi(OtherApi(), **options)


async def hints(server: AgentServer) -> dict[str, dict[str, Any]]:
    """Return what each tool says of itself, where it says anything."""
    async with Client(server) as client:
        return {t.name: t.annotations.model_dump(exclude_none=True) for t in await client.list_tools() if t.annotations}


@every("made", [as_api, as_app])
@every("bound", ["MCP_READ_ONLY", "MCP_NO_DESTRUCTIVE"])
async def test_of_operations_those_that_read_are_left(made: Callable[..., AgentServer], bound: str) -> None:
    async with Client(made(environ={"MCP_GRAPH": "off", bound: "true"})) as client:
        assert sorted(await tool_names(client)) == READ


@every("made", [as_api, as_app])
async def test_operations_say_what_their_methods_mean(made: Callable[..., AgentServer]) -> None:
    reads = {"read_only_hint": True, "destructive_hint": False, "idempotent_hint": True}
    said = await hints(made(environ={"MCP_GRAPH": "off"}))
    deletes = {"destructive_hint": True, "idempotent_hint": True}
    assert said == {**dict.fromkeys(READ, reads), "put": {"idempotent_hint": True}, "delete": deletes}


async def test_what_an_author_says_of_an_operation_holds() -> None:
    def customise(route: Any, component: Any) -> None:
        match route.method:
            case "GET":
                component.annotations = ToolAnnotations(title="Look", destructive_hint=True)
            case "HEAD":
                component.annotations = ToolAnnotations(title="Peek")
            case "POST":
                component.annotations = {"readOnlyHint": True}
            case "PUT":
                component.annotations = ToolAnnotations(destructive_hint=False)
            case "DELETE":
                raise RuntimeError("not today")

    given = (OPERATIONS, httpx2.AsyncClient(base_url="http://orders"), "orders", None, None, customise)
    for server in (
        AgentServer.from_openapi(*given, environ={"MCP_GRAPH": "off"}),
        as_app(mcp_component_fn=customise, environ={"MCP_GRAPH": "off"}),
    ):
        said = await hints(server)
        assert said["get"] == {"title": "Look", "destructive_hint": True}
        assert (said["head"]["title"], said["head"]["read_only_hint"]) == ("Peek", True)
        assert said["post"] == {"read_only_hint": True}
        assert said["put"] == {"destructive_hint": False}
        assert said["delete"]["destructive_hint"] is True
        assert "patch" not in said


PULLS = {
    "openapi": "3.1.0",
    "info": {"title": "hub", "version": "1"},
    "paths": {
        "/stars": {
            "put": {
                "operationId": "activity/star-repo",
                "summary": "Star a repository",
                "description": "Set `Content-Length` to zero.",
                "responses": _ANSWER,
            }
        },
        "/pulls": {"get": {"operationId": "pulls/list", "description": "Draft ones too.", "responses": _ANSWER}},
        "/gists": {
            "get": {
                "operationId": "gists.list",
                "summary": "List gists",
                "description": "List gists of a user.",
                "responses": _ANSWER,
            }
        },
        "/files": {"get": {"operationId": "files", "summary": "Show files", "responses": _ANSWER}},
    },
}


class Hub(Api):
    """An application whose operations have summaries, and ids with a slash."""

    def openapi(self) -> dict[str, Any]:
        """Return the specification."""
        return PULLS


def as_hub(**options: Any) -> AgentServer:
    return AgentServer.from_openapi(PULLS, httpx2.AsyncClient(base_url="http://hub"), **options)


def as_hub_app(**options: Any) -> AgentServer:
    return AgentServer.from_fastapi(Hub(), **options)


def as_hub_mounted(**options: Any) -> AgentServer:
    outer = AgentServer("outer", **options)
    outer.mount(as_hub(environ={"MCP_GRAPH": "off"}))
    return outer


async def listed(server: AgentServer) -> dict[str, Tool]:
    async with Client(server) as client:
        return {tool.name: tool for tool in await client.list_tools()}


@every("made", [as_hub, as_hub_app, as_hub_mounted])
async def test_an_operation_says_its_summary_once_and_its_id_in_words(made: Callable[..., AgentServer]) -> None:
    tools = await listed(made(environ={"MCP_GRAPH": "off"}))
    star, pulls = tools["activitystar_repo"], tools["pullslist"]
    assert (star.title, star.description) == (
        "Star a repository",
        "Star a repository\n\nSet `Content-Length` to zero.",
    )
    assert (star.meta or {})["anthropic/searchHint"] == "activity star repo"
    assert (pulls.description, (pulls.meta or {})["anthropic/searchHint"]) == ("Draft ones too.", "pulls list")
    assert tools["gists_list"].description == "List gists of a user."
    assert tools["files"].description == "Show files"
    assert "anthropic/searchHint" not in {**(tools["files"].meta or {}), **(tools["gists_list"].meta or {})}


@every("made", [as_hub, as_hub_app])
async def test_what_an_author_writes_in_place_of_a_summary_stays(made: Callable[..., AgentServer]) -> None:
    def customise(route: Any, component: Any) -> None:
        component.title, component.description = "Mine", "My own."
        component.meta = {"anthropic/searchHint": "mine"}

    star = (await listed(made(mcp_component_fn=customise, environ={"MCP_GRAPH": "off"})))["activitystar_repo"]
    assert (star.title, star.description, (star.meta or {})["anthropic/searchHint"]) == ("Mine", "My own.", "mine")


@pytest.mark.outside  # a type checker takes seconds where it has kept nothing
@every(
    "made",
    ["create_mcp_server('a', {})", "create_gateway({{}}, {})", "AgentServer('a', {})"],
)
def test_a_type_checker_finds_options_that_are_misspelt(made: str, tmp_path: Path) -> None:
    wrong = ["instructins='x'", "on_duplicate='eror'", "midleware=[]", "mask_error_details='yes'"]
    right = "instructions='x', on_duplicate='error', middleware=[], mask_error_details=True, cache_ttl=3"
    lines = ["from agent_utilities import AgentServer, create_gateway, create_mcp_server", made.format(right)]
    (tmp_path / "made.py").write_text("\n".join([*lines, *map(made.format, wrong)]))
    told, failed, _ = mypy.api.run([str(tmp_path / "made.py")])
    assert [int(line.split(":")[1]) for line in told.splitlines() if ": error:" in line] == [3, 4, 5, 6], told + failed
