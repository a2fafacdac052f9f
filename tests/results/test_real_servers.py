"""Servers that others wrote behind a gateway, asked for more than fits: it is read on in both eras of the protocol."""

from __future__ import annotations

import base64
import json
import os
import random
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client

from agent_utilities.catalog.context import n_tokens
from tests.conformance import node
from tests.every import every
from tests.gateway.upstreams.gateway_process import Gateway, gateway
from tests.gateway.upstreams.real_servers import make_workspace, one_page, real_config
from tests.results.test_feature import about, texts

pytestmark = [pytest.mark.anyio, pytest.mark.node, pytest.mark.outside]

NAMES = ["filesystem", "git", "fetch", "everything", "memory"]
SDK = "1.32.2"
BUDGET = 8_000
LINES = "".join(f"{i:07} the quick brown fox number {i * 7919 % 100_003}\n" for i in range(110_000))
HTML = (
    "<html><body>" + "".join(f"<p id='p{i}'>Paragraph {i} says {i * 31}.</p>" for i in range(30_000)) + "</body></html>"
)
N_COMMITS = 3_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The servers' workspace: a file of 5 MB, a log of 3,000 commits, and an image."""
    folder = tmp_path_factory.mktemp("long")
    workspace = make_workspace(folder)
    (workspace / "large.txt").write_text(LINES, encoding="utf-8")
    (workspace / "noise.png").write_bytes(_noise(640, 480))
    commits = "".join(
        f"commit refs/heads/main\ncommitter A Reader <reader@example.org> {1767225600 + i} +0000\n"
        f"data {len(message)}\n{message}\n" + ("from refs/heads/main^0\n" if i == 0 else "")
        for i, message in enumerate(f"Change number {i} of many" for i in range(N_COMMITS))
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=workspace, input=commits.encode(), check=True)
    return folder


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Gateway]:
    config = real_config(folder)
    servers = {name: entry for name, entry in config["mcpServers"].items() if name in NAMES}
    with gateway({"mcpServers": servers}, folder, MCP_RESULT_TOKENS="") as it:
        it.until_listed(NAMES)
        yield it


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    with one_page(HTML.encode(), "text/html") as url:
        yield url


def _noise(width: int, height: int) -> bytes:
    """Return a PNG of random pixels, which takes 900 kB."""
    random_bytes = random.Random(7).randbytes
    rows = b"".join(b"\0" + random_bytes(3 * width) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


async def call(
    served: Gateway, mode: str, name: str, arguments: dict[str, Any], **further: Any
) -> tuple[Any, list[str]]:
    """Return the result of a call, and the texts of what is read on."""
    async with Client(f"{served.process.url}/mcp", mode=mode) as client:
        await client.list_tools()
        result = await client.call_tool(name, arguments)
        read = await client.call_tool("read_result", {"result": about(result)["handle"], **further})
    assert sum(map(n_tokens, texts(result))) <= BUDGET
    assert sum(map(n_tokens, texts(read))) <= BUDGET
    return result, texts(read)


@every("mode", ["legacy", "2026-07-28"])
async def test_a_file_of_5_mb_is_searched(served: Gateway, folder: Path, mode: str) -> None:
    path = str(folder / "workspace" / "large.txt")
    result, read = await call(served, mode, "filesystem_read_text_file", {"path": path}, find="0087654 the")
    assert about(result)["tokens"] > 1_000_000
    assert f"0087654 the quick brown fox number {87_654 * 7919 % 100_003}" in "".join(read)


@every("mode", ["legacy", "2026-07-28"])
async def test_a_log_of_3000_commits_is_read_at_its_end(served: Gateway, folder: Path, mode: str) -> None:
    arguments = {"repo_path": str(folder / "workspace"), "max_count": 3_000}
    _, read = await call(served, mode, "git_git_log", arguments, find="Change number 17 of many")
    assert "Change number 17 of many" in "".join(read)


@every("mode", ["legacy", "2026-07-28"])
async def test_a_page_of_1_mb_is_searched(served: Gateway, page: str, mode: str) -> None:
    arguments = {"url": page, "max_length": 999_999, "raw": True}
    _, read = await call(served, mode, "fetch_fetch", arguments, find="Paragraph 12345 ")
    assert f"Paragraph 12345 says {12345 * 31}." in "".join(read)


async def test_an_image_that_fits_is_given_as_it_is(served: Gateway, folder: Path) -> None:
    path = folder / "workspace" / "noise.png"
    async with Client(f"{served.process.url}/mcp") as client:
        result = await client.call_tool("filesystem_read_media_file", {"path": str(path)})
    images = [block for block in result.content if block.type == "image"]
    assert [base64.b64decode(block.data) for block in images] == [path.read_bytes()]


async def test_an_image_that_does_not_is_behind_a_link(served: Gateway, folder: Path) -> None:
    path = folder / "workspace" / "noise.png"
    async with Client(f"{served.process.url}/mcp?result_tokens=300") as client:
        result = await client.call_tool("filesystem_read_media_file", {"path": str(path)})
        link = next(block for block in result.content if block.type == "resource_link")
        contents = await client.read_resource(link.uri)
    assert base64.b64decode(contents[0].blob) == path.read_bytes()


def test_the_client_of_typescript_reads_on(served: Gateway, folder: Path) -> None:
    modules = node.installed("@modelcontextprotocol/sdk", SDK).parent.parent
    script = folder / "reader.mjs"
    script.write_text(Path(__file__).with_name("reader.mjs").read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "node_modules").symlink_to(modules)
    arguments = json.dumps({"path": str(folder / "workspace" / "large.txt")})
    asked = [f"{served.process.url}/mcp", "filesystem_read_text_file", arguments, json.dumps({"find": "0000777 the"})]
    done = subprocess.run(
        [node.node(), str(script), *asked], capture_output=True, text=True, check=True, env={**os.environ}
    )
    seen = json.loads(done.stdout)
    assert seen["schemas"] == 0
    assert "0000777 the quick brown fox" in seen["read"][-1]["text"]
