"""What a server says of its operator's bounds when it starts, and of names in them that fit nothing."""

from __future__ import annotations

import logging
import re
from contextlib import asynccontextmanager

import httpx2
import pytest
from fastmcp import FastMCP
from fastmcp.server import create_proxy
from fastmcp.server.middleware import Middleware

from agent_utilities import create_mcp_server
from agent_utilities.errors import SelectionError
from agent_utilities.selection.parse import read_cli
from tests.every import every
from tests.mcp.servers import log_server

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


class TestWhereToolsMayComeLater:
    async def test_it_is_a_warning_until_they_have_come(self):
        far: FastMCP = FastMCP("far")
        far.tool(lambda: "", name="burn", tags={"fire"})
        server = launched(("--disabled-tags", "fire"), MCP_STRICT="1")
        server.mount(create_proxy(far))
        app = server.http_app()
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost") as web,
        ):
            assert server.operator_bounds.n_unfit(denies=True) == 1
            await web.get("/tools")
            assert await state(web) == ([], {"deny": 0, "allow": 0})

    async def test_one_that_the_author_hides_for_now_ends_no_launch(self):
        server = launched(("--disabled-tools", "tail_lgo"))
        server.disable(names={"tail_log"})
        assert (await start(server))[1]["deny"] == 1


class TestTheLineAtTheStart:
    @pytest.mark.parametrize(
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
