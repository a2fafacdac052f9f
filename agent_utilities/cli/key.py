"""`agent-utilities key`: make the operator's key, which seals callers' logins."""

from __future__ import annotations

import typer

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def key() -> None:
    """Make the key that seals what a gateway keeps of its callers."""


@app.command()
def new() -> None:
    """Print a new key, alone on stdout: for MCP_SECRET_KEY, or the file that MCP_SECRET_KEY_FILE names."""
    from agent_utilities.gateway.upstreams.sealed_store import new_key

    print(new_key())
