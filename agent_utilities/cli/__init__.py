"""The `agent-utilities` command."""
