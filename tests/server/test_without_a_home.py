"""A user who has no home, or none that can be written: nothing is kept, everything is answered."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import mcp_types
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from agent_utilities import selection_meta
from agent_utilities.selection.channels import META_KEY
from tests.every import every

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.outside,
    pytest.mark.skipif(os.name == "nt", reason="homes are Unix's here"),
]

SERVER = """
from agent_utilities import create_mcp_server
mcp = create_mcp_server("homeless")
@mcp.tool
def read_note() -> str:
    "Reads a note"
@mcp.tool
def send_mail() -> str:
    "Sends mail"
mcp.cli([])
"""
NO_ENTRY = 54321
"""A user of whom the system knows nothing, and so no home."""
HOMES = ["none", "", "a file", "read-only"]


async def served(folder: Path, home: str, **environ: str) -> tuple[str, str]:
    """Return how a query was answered by a server of such a user, and what it said."""
    folder = folder / (home or "blank") / "_".join(environ)
    folder.mkdir(parents=True)
    command = [sys.executable, "-c", SERVER]
    variables = {"PATH": os.environ["PATH"], "MCP_GRAPH_DEADLINE_MS": "60000", "MCP_RANKER": "lexical", **environ}
    variables |= {"FASTMCP_CHECK_FOR_UPDATES": "off", "XDG_DATA_HOME": str(folder)}  # FastMCP's own needs one
    match home:
        case "none" | "":
            if os.geteuid() != 0 or shutil.which("setpriv") is None:
                pytest.skip("only root becomes another user")
            as_nobody = ["setpriv", f"--reuid={NO_ENTRY}", f"--regid={NO_ENTRY}", "--clear-groups"]
            # The SDK hands on the home that it has itself.
            command = [*([] if not home else ["env", "-u", "HOME"]), *as_nobody, *command]
            os.chown(folder, NO_ENTRY, NO_ENTRY)
            for parent in (folder, *folder.parents[:-1]):
                if parent.stat().st_uid == os.geteuid():
                    parent.chmod(parent.stat().st_mode | stat.S_IXOTH)
            variables |= {"HOME": ""} if not home else {}
        case "a file":
            (folder / "home").touch()
            variables["HOME"] = str(folder / "home")
        case "read-only":  # to root nothing is: where a folder is in the way of one that is to be made
            (folder / "home").mkdir()
            (folder / "home" / ".cache").touch()
            variables["HOME"] = str(folder / "home")
    said = folder / "said"
    transport = StdioTransport(command[0], command[1:], env=variables, cwd=str(folder), log_file=said, keep_alive=False)
    async with Client(transport, init_timeout=60) as client:
        params = mcp_types.PaginatedRequestParams.model_validate({"_meta": selection_meta(query="reads notes")})
        answer = await client.session.send_request(mcp_types.ListToolsRequest(params=params), mcp_types.ListToolsResult)
    return (answer.meta or {})[META_KEY]["status"], said.read_text()


@every("home", HOMES)
async def test_queries_are_answered_by_a_graph_in_memory(tmp_path: Path, home: str) -> None:
    status, said = await served(tmp_path, home)
    assert status in ("fresh", "ranked")
    assert "the graph is in memory until the next start" in said
    assert "Traceback" not in said


async def test_so_they_are_where_no_settings_file_is_read(tmp_path: Path) -> None:
    status, said = await served(tmp_path, "none", MCP_CONFIG_FILE="none", MCP_USAGE="counts")
    assert status in ("fresh", "ranked")
    assert "Traceback" not in said


@every("variable", ["MCP_CONFIG_FILE", "MCP_AUTH_TOKENS"])
async def test_a_file_in_it_that_a_setting_names_is_told_in_one_line(tmp_path: Path, variable: str) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - the server ends, however its client tells it
        await served(tmp_path, "none", **{variable: "~/named"})
    said = (tmp_path / "none" / variable / "said").read_text()
    assert said.startswith("error: ")
    assert said.count("\n") == 1
