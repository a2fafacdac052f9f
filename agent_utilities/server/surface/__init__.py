"""The tool surface of a server: the verdict on a request, and the decisions made under it."""
