"""HTTP beside MCP: the application put together, and `/tools`, `/context`, `/health`, `/ready`, `/metrics`."""
