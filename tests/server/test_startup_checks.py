"""What a server says of its operator's bounds when it starts, and of names in them that fit nothing."""

from __future__ import annotations

import logging
import re
from contextlib import asynccontextmanager
from uuid import uuid4

import anyio
import httpx2
import pytest
from fastmcp import FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import FileSystemProvider, LocalProvider, Provider
from fastmcp.server.providers.openapi import OpenAPIProvider
from fastmcp.server.transforms.search.bm25 import BM25SearchTransform
from fastmcp.tools.base import Tool

from agent_utilities import create_mcp_server
from agent_utilities.errors import SelectionError
from agent_utilities.selection.parse import read_cli
from tests.every import every
from tests.server.servers import log_server

pytestmark = pytest.mark.anyio


def launched(*options: tuple[str, str], **environ: str):
    server = log_server(environ=environ)
    server.surface.launch(read_cli(options))
    return server


async def start(server) -> httpx2.AsyncClient:
    """Start a server's application and return what it answers to `/ready`, and its metric."""
    app = server.http_app()
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as web,
    ):
        return await state(web)


async def state(web) -> tuple[list[str], dict[str, float]]:
    warnings = (await web.get("/ready")).json().get("warnings", [])
    counts = re.findall(r'mcp_operator_names_unfit{bound="(\w+)"} (\S+)', (await web.get("/metrics")).text)
    return warnings, {bound: float(n) for bound, n in counts}


class TestADenyThatFitsNothing:
    @every(
        ("option", "names", "near"),
        [
            ("--disabled-tags", "writ", "did you mean write?"),
            ("--disabled-tools", "delete_log,tail_lgo", "did you mean tail_log?"),
            ("--disabled-toolsets", "raed", "did you mean read?"),
            ("--disabled-tools", "wipe_*", "--list shows what there is"),
        ],
    )
    async def test_ends_the_launch_where_the_command_line_gave_it(self, option, names, near):
        with pytest.raises(SelectionError, match=re.escape(near)) as refused:
            await start(launched((option, names)))
        assert refused.value.source == f"option {option}"

    @every("name", ["triage", "log://keys", "keys", "log://{name}", "*_log", "none", "all"])
    async def test_names_of_prompts_and_resources_fit_too(self, name):
        assert (await start(launched(("--disabled-tools", name))))[0] == []

    async def test_is_warned_of_where_the_environment_gave_it(self, caplog):
        with caplog.at_level(logging.WARNING, "agent_utilities.start"):
            warnings, counts = await start(
                launched(MCP_DISABLED_TAGS="write,writ", MCP_ENABLED_TOOLS="tail_log,tail_lgo")
            )
        assert counts == {"deny": 1, "allow": 1}
        assert [warning.partition(";")[0] for warning in warnings] == [
            "names in the operator's deny settings that fit nothing: 1",
            "names in the operator's allow-list settings that fit nothing: 1",
        ]
        assert "'writ' (from env MCP_DISABLED_TAGS); did you mean write?" in caplog.text
        assert "'tail_lgo' (from env MCP_ENABLED_TOOLS); did you mean tail_log?" in caplog.text

    async def test_ends_the_launch_where_the_environment_is_strict(self):
        with pytest.raises(SelectionError, match="did you mean write"):
            await start(launched(MCP_DISABLED_TAGS="writ", MCP_STRICT="1"))

    async def test_an_allow_list_ends_none(self):
        assert (await start(launched(("--tools", "tail_lgo"), MCP_STRICT="1")))[1] == {"deny": 0, "allow": 1}

    @every(
        ("option", "near"),
        [
            ("--tools", "--toolsets write"),
            ("--enabled-tools", "--toolsets write"),
            ("--disabled-tools", "--disabled-toolsets writ*?"),
        ],
    )
    async def test_a_toolset_where_names_are_ends_it_and_is_told_how_to_name_it(self, option, near):
        names = "writ*" if "disabled" in option else "tail_log,Write"
        with pytest.raises(SelectionError, match=re.escape(f"did you mean {near}")) as refused:
            await start(launched((option, names)))
        assert f"of tools that names a toolset: '{'writ*' if 'disabled' in option else 'write'}'" in str(refused.value)

    async def test_a_toolset_in_an_allow_list_of_the_environment_is_warned_of(self, caplog):
        with caplog.at_level(logging.WARNING, "agent_utilities.start"):
            assert (await start(launched(MCP_ENABLED_TOOLS="tail_log,write")))[1] == {"deny": 0, "allow": 1}
        assert "'write' (from env MCP_ENABLED_TOOLS); did you mean MCP_TOOLSETS=write?" in caplog.text

    @every("name", ["tool_search", "call_tool", "mcp_load"])
    async def test_the_entry_tools_are_there(self, name):
        assert (await start(launched(("--disabled-tools", name))))[0] == []

    async def test_a_tool_that_the_authors_lifespan_adds_is_there(self):
        @asynccontextmanager
        async def lifespan(server):
            server.tool(lambda: "", name="added", tags={"late"})
            yield

        server = log_server(lifespan=lifespan)
        server.surface.launch(read_cli([("--disabled-tools", "added"), ("--disabled-tags", "late")]))
        assert (await start(server))[0] == []

    async def test_of_a_mounted_server_the_name_with_its_prefix_fits(self):
        server = launched(("--disabled-tools", "kid_wipe"))
        kid: FastMCP = FastMCP("kid")
        kid.tool(lambda: "", name="wipe")
        server.mount(kid, namespace="kid")
        assert (await start(server))[0] == []
        server = launched(("--disabled-tools", "wipe"))
        server.mount(kid, namespace="kid")
        with pytest.raises(SelectionError):
            await start(server)

    async def test_what_a_mounted_server_hides_itself_by_the_same_environment_is_there(self, caplog):
        environ = {"MCP_DISABLED_TAGS": "delete", "MCP_DISABLED_TOOLS": "rotate_log", "MCP_STRICT": "1"}
        server = create_mcp_server("all", environ=environ)
        server.mount(log_server(environ=environ), namespace="kid")
        with caplog.at_level(logging.INFO, "agent_utilities.start"):
            assert (await start(server))[0] == []
        assert "all: 2 of 4 tools permitted" in caplog.text


class TestWhoeverListsIt:
    """What an operator denies is judged on what is listed, whatever provider lists it."""

    def openapi(self, **environ):
        def operation(name, tag):
            return {"operationId": name, "tags": [tag], "responses": {"200": {"description": "ok"}}}

        paths = {"/pets": {"get": operation("list_pets", "pet")}, "/orders": {"delete": operation("drop", "store")}}
        spec = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}
        return OpenAPIProvider(spec, client=httpx2.AsyncClient(base_url="http://api"))

    def files(self, folder):
        (folder / "tools.py").write_text(
            "from fastmcp.tools import tool\n@tool(tags={'store'})\ndef drop() -> str:\n    return ''\n"
        )
        return FileSystemProvider(folder, reload=True)

    def made(self, which, folder):
        if which == "openapi":
            return self.openapi()
        if which == "files":
            return self.files(folder)
        if which == "subclass":
            provider = type("Mine", (LocalProvider,), {})()
            provider.tool(lambda: "", name="drop", tags={"store"})
            return provider
        if which == "provider":
            return Theirs()
        far: FastMCP = FastMCP("far")
        far.tool(lambda: "", name="drop", tags={"store"})
        return create_proxy(far) if which == "proxy" else far

    @every("which", ["openapi", "files", "subclass", "provider", "proxy", "plain"])
    @every("namespace", ["", "n"])
    async def test_a_misspelt_deny_ends_the_launch_and_a_right_one_does_not(self, which, namespace, tmp_path, caplog):
        folder = tmp_path / uuid4().hex
        folder.mkdir()
        for tags, misspelt in [("store", False), ("stroe", True)]:
            server = create_mcp_server("s", environ={"MCP_GRAPH": "off"})
            server.add_provider(self.made(which, folder), namespace=namespace)
            server.surface.launch(read_cli([("--disabled-tags", tags)]))
            if misspelt:
                with pytest.raises(SelectionError, match="did you mean store"):
                    await start(server)
            else:
                assert (await start(server))[0] == []

    async def test_they_are_counted_at_the_start(self, caplog):
        server = launched(("--disabled-tags", "store"))
        server.add_provider(self.openapi())
        with caplog.at_level(logging.INFO, "agent_utilities.start"):
            await start(server)
        assert "logs: 5 of 6 tools permitted; --disabled-tags store (cli)" in caplog.messages

    async def test_what_a_transform_of_the_server_hides_or_renames_is_there(self):
        for name, is_there in [("tail_log", True), ("search_tools", True), ("tail_lgo", False)]:
            server = launched(("--disabled-tools", name))
            server.add_transform(BM25SearchTransform())
            if is_there:
                assert (await start(server))[0] == []
            else:
                with pytest.raises(SelectionError):
                    await start(server)

    async def test_one_that_the_author_disabled_is_there(self):
        for name, is_there in [("tail_log", True), ("tail_lgo", False)]:
            server = launched(("--disabled-tools", name))
            server.disable(names={"tail_log"})
            if is_there:
                assert (await start(server))[0] == []
            else:
                with pytest.raises(SelectionError):
                    await start(server)


class Theirs(Provider):
    """An author's own provider."""

    async def _list_tools(self):
        return [Tool.from_function(lambda: "", name="drop", tags={"store"})]


class Down(Provider):
    """A provider that can't list yet."""

    is_up = False

    async def _list_tools(self):
        if not self.is_up:
            raise ConnectionError("refused")
        return [Tool.from_function(lambda: "", name="burn", tags={"fire"})]


class TestWhereToolsMayComeLater:
    @every("depth", [0, 1, 2])
    async def test_it_is_a_warning_until_they_have_come(self, depth):
        down = Down()
        server = launched(("--disabled-tags", "fire"), MCP_STRICT="1")
        within = down
        for _ in range(depth):
            around: FastMCP = FastMCP("around")
            around.add_provider(within)
            within = around
        server.add_provider(within)
        app = server.http_app()
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as web,
        ):
            assert server.operator_bounds.n_unfit(denies=True) == 1
            down.is_up = True
            await web.get("/tools")
            assert await state(web) == ([], {"deny": 0, "allow": 0})

    @pytest.mark.outside
    async def test_a_proxy_whose_server_is_down_ends_no_launch(self):
        server = launched(("--disabled-tags", "fire"))
        server.mount(create_proxy("http://127.0.0.1:9/mcp"))
        assert (await start(server))[1]["deny"] == 1

    async def test_one_that_hangs_ends_none_either(self, monkeypatch, caplog):
        class Hanging(Provider):
            async def _list_tools(self):
                await anyio.sleep_forever()

        monkeypatch.setattr("agent_utilities.server.startup_checks._LIST_S", 0.05)
        server = launched(("--disabled-tools", "tail_lgo"))
        server.add_provider(Hanging())
        await server.operator_bounds.judge()
        assert server.operator_bounds.n_unfit(denies=True) == 1
        assert "what the operator's bounds come to is not known" in caplog.text

    async def test_another_server_is_asked_only_where_a_name_fits_nothing_else(self):
        asked = []

        class Counting(Middleware):
            async def on_list_tools(self, context, call_next):
                asked.append(context.method)
                return await call_next(context)

        for name, is_asked in [("tail_log", False), ("burn", True)]:
            far: FastMCP = FastMCP("far", middleware=[Counting()])
            far.tool(lambda: "", name="burn")
            server = launched(("--disabled-tools", name))
            server.mount(create_proxy(far))
            asked.clear()
            await server.operator_bounds.judge()
            assert bool(asked) is is_asked


class TestTheLineAtTheStart:
    @every(
        ("options", "environ", "line"),
        [
            ([("--disabled-tags", "write")], {}, "logs: 2 of 4 tools permitted; --disabled-tags write (cli)"),
            ([], {}, "logs: 4 of 4 tools permitted; no bounds"),
            (
                [("--read-only", "true"), ("--query", "x")],
                {"MCP_DISABLED_TOOLS": "tail_log,keys"},
                "logs: 1 of 4 tools permitted; MCP_DISABLED_TOOLS keys,tail_log (env); --read-only (cli)",
            ),
            (
                [("--read-only", "true")],
                {"MCP_DISABLED_TAGS": "read"},
                "logs: 0 of 4 tools permitted: they are not annotated readOnlyHint: true (option --read-only); "
                "MCP_DISABLED_TAGS read (env); --read-only (cli)",
            ),
            (
                [("--no-destructive", "true"), ("--disabled-tags", "read")],
                {},
                "logs: 0 of 4 tools permitted: they are annotated neither readOnlyHint: true nor destructiveHint: "
                "false (option --no-destructive); --disabled-tags read (cli); --no-destructive (cli)",
            ),
        ],
    )
    async def test_says_what_holds_and_where_it_was_set(self, caplog, options, environ, line):
        with caplog.at_level(logging.INFO, "agent_utilities.start"):
            await start(launched(*options, **environ))
        assert line in caplog.messages

    async def test_a_listing_that_fails_keeps_no_server_from_starting(self, caplog):
        class Failing(Middleware):
            async def on_list_tools(self, context, call_next):
                raise RuntimeError("not without a request")

        server = launched(("--disabled-tools", "tail_lgo"))
        server.mount(FastMCP("kid", middleware=[Failing()]))
        await start(server)
        assert "what the operator's bounds come to is not known" in caplog.text
