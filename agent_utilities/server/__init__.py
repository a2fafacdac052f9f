"""The host: everything that meets FastMCP, the SDK and HTTP; it introspects and asks, and decides nothing."""
