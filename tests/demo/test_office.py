"""The server of two demos: what its tables promise of it."""

from __future__ import annotations

import pytest
from fastmcp import Client

from demo.office import office_server

pytestmark = pytest.mark.anyio


async def test_has_sixty_tools() -> None:
    async with Client(office_server()) as client:
        assert len({tool.name for tool in await client.list_tools()}) == 60


async def test_half_of_them_read_only() -> None:
    async with Client(office_server()) as client:
        reading = [
            tool.name for tool in await client.list_tools() if tool.annotations and tool.annotations.read_only_hint
        ]
    assert len(reading) == 30
    assert {name.partition("_")[0] for name in reading} == {"list", "get", "export"}


async def test_each_says_what_it_would_do() -> None:
    for name, arguments, answer in [
        ("list_orders", {}, "20 orders"),
        ("list_orders", {"limit": 3, "status": "open"}, "3 orders that are open"),
        ("get_employee", {"id": "A-17"}, "employee A-17"),
        ("create_invoice", {"name": "Acme"}, "invoice A-17 made: Acme"),
        ("create_invoice", {"name": "Acme", "details": {"amount": "120"}}, "invoice A-17 made: Acme, amount 120"),
        ("update_ticket", {"id": "A-17", "details": {"priority": "high"}}, "ticket A-17 updated: priority high"),
        ("delete_document", {"id": "A-17"}, "document A-17 deleted"),
        ("export_payments", {"format": "pdf"}, "payments.pdf"),
    ]:
        async with Client(office_server()) as client:
            assert (await client.call_tool(name, arguments)).data == answer
