"""No secret of a request is in any byte that a server leaves on the disk, nor in a line of its log."""

from __future__ import annotations

import logging
import re
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastmcp import Client

from tests.every import every
from tests.server.servers import over_http
from tests.usage.test_isolated_usage import another
from tests.usage.test_learning_server import learned, office, told

pytestmark = pytest.mark.anyio

SECRETS = (
    "sk-proj-abcdefghijkl",
    "sk-ant-api03-abcdefghij",
    "sk_live_abcdefghij",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG",
    "glpat-abcdefghijklmnopqrst",
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-123456-abcdef",
    "eyJhbGciOiJIUzI1NiJ9.e30.abc",
    "AIzaSyAbcdefghijklm",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "d41d8cd98f00b204e9800998ecf8427e",
    "123e4567-e89b-12d3-a456-426614174000",
    "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP",
    "bob@example.com",
    "root@localhost",
    "bob%40example.com",
    "postgres://app:hunter2@db/prod",
    "10.0.0.17",
    "fe80::1ff:fe23:4567:890a",
    "00:1B:44:11:3A:B7",
    "4111-1111-1111-1111",
    "+491512345678",
    "DE89370400440532013000",
    "password=hunter2",
    "DB_PASSWORD:hunter3",
    "api_key: hunter4",
    "Bearer hunter5",
)
KEPT = "mailbox"
_KEY = re.compile("password=|DB_PASSWORD:|api_key: |Bearer ")


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def words_of(secret: str) -> str:
    return f"letter {secret} {KEPT}"


async def by_list(app: Any, client: Client[Any], words: str) -> None:
    await told(client, words)
    await client.call_tool("post")


async def by_search(app: Any, client: Client[Any], words: str) -> None:
    await client.call_tool("tool_search", {"query": f"{words} carrier"})
    await client.call_tool("post")


async def by_header(app: Any, client: Client[Any], words: str) -> None:
    async with another(client, {"x-mcp-query": words}, "auto") as stateless:
        await stateless.call_tool("post")


async def by_url(app: Any, client: Client[Any], words: str) -> None:
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app)) as http:
        await http.get("http://127.0.0.1/tools", params={"q": words, "explain": "1"})


@every("mode", ["words", "counts"])
async def test_no_secret_is_in_a_byte_on_the_disk_or_a_line_of_the_log(
    tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "agent_utilities")
    server = office(tmp_path, environ={"MCP_USAGE": mode, "MCP_TOOL_SEARCH": "on"})
    app, client = over_http(server, mode="legacy")
    async with app.router.lifespan_context(app), client:
        for secret, ask in zip(SECRETS, cycle((by_list, by_search, by_header, by_url, by_list)), strict=False):
            await ask(app, client, words_of(secret))
        await learned(server)
        while_it_runs = bytes_of(tmp_path)
    on_disk = while_it_runs + bytes_of(tmp_path)
    lines = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("agent_utilities"))
    assert b"post" in on_disk
    assert (KEPT.encode() in on_disk) == (mode == "words")
    values = [_KEY.sub("", secret) for secret in SECRETS]
    assert [value for value in values if value.encode() in on_disk or value in lines] == []
