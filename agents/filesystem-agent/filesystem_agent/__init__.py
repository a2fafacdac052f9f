"""filesystem tools over MCP."""
