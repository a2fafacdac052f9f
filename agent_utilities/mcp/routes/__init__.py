"""HTTP beside MCP: the application put together, and `/tools`, `/health`, `/ready`, `/metrics`."""
