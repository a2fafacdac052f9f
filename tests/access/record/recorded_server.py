"""A server that keeps a record, as an operator launches it: `python recorded_server.py`."""

import os

from agent_utilities import create_mcp_server

server = create_mcp_server("recorded")


@server.tool
def count(number: int) -> int:
    """Say the number again."""
    return number


@server.tool
def process_id() -> int:
    """Say which process this is."""
    return os.getpid()


if __name__ == "__main__":
    server.cli()
