"""File tools over MCP, confined to the directories the operator allows."""
