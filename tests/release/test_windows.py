"""Windows, as far as it can be tried elsewhere: without the modules and names that it has not, and by the types."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.every import every

ROOT = Path(__file__).parents[2]
LEFT = (ROOT / "docs/releasing.md").read_text(encoding="utf-8")
_IMPORT_ALL = """
import importlib, pkgutil
import agent_utilities
for module in pkgutil.walk_packages(agent_utilities.__path__, "agent_utilities."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print("imported")
"""
_HELP = """
import sys
sys.argv = ["agent-utilities", "--help"]
from agent_utilities.cli.app import main
main()
"""
_SERVER = """
import asyncio
from agent_utilities import create_mcp_server
from fastmcp import Client
mcp = create_mcp_server("weather")
@mcp.tool
def rain() -> str:
    return "none"
async def look():
    async with Client(mcp) as client:
        print([tool.name for tool in await client.list_tools()], (await client.call_tool("rain")).data)
asyncio.run(look())
"""
_TAKEN_AWAY = """
__name__ = "agent_utilities.trial"
import os, signal, sys
try:
    import fcntl
except ModuleNotFoundError:
    print(hasattr(os, "killpg"), hasattr(signal, "SIGKILL"), os.name, sys.platform, os.getpid() > 0)
"""


def without_posix(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.release.without_posix", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.outside
@every(
    ("code", "printed"),
    [
        (_TAKEN_AWAY, "False False nt win32 True"),
        (_IMPORT_ALL, "imported"),
        (_HELP, "gateway"),
        (_SERVER, "['rain'] none"),
    ],
    ids=["they are taken away", "every module is imported", "--help", "a server lists its tool"],
)
def test_without_what_windows_has_not(code: str, printed: str) -> None:
    done = without_posix(code)
    assert (done.returncode, printed in done.stdout) == (0, True), done.stderr


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_names_that_windows_has_not_are_used_only_where_the_docs_say() -> None:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--platform",
        "win32",
        "--cache-dir",
        ".mypy_cache/win32",
        "agent_utilities",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    used = set(re.findall(r"^agent_utilities/(\S+?):\d+: error: Module has no attribute", done.stdout, re.MULTILINE))
    assert used != set(), done.stdout + done.stderr
    assert {path for path in used if f"`{path}`" not in LEFT} == set()
