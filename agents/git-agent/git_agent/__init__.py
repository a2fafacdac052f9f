"""git tools over MCP."""
