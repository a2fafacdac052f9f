"""logs tools over MCP."""
