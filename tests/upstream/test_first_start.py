"""A gateway's very first start, with a caller who does not wait for it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.upstream.gateway_process import gateway
from tests.upstream.supervised import FAULTY

pytestmark = [pytest.mark.outside, pytest.mark.timeout(120)]

SERVER = {"command": sys.executable, "args": ["-I", "-S", str(FAULTY)]}


def test_a_request_in_the_middle_of_it_costs_no_server_its_first_try(tmp_path: Path) -> None:
    # The caller that is opened with the gateway has it import what requests need, while threads import what servers do.
    with gateway({"mcpServers": {"one": SERVER, "two": SERVER}}, tmp_path) as server:
        server.until_listed(["one", "two"])
        told = server.access.http.get("/metrics").body.decode()
    assert re.findall(r"^mcp_upstream_(starts|failures)_total (\S+)$", told, re.MULTILINE) == [
        ("starts", "2.0"),
        ("failures", "0.0"),
    ]
