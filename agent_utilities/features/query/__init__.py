"""Lists that a query shapes: it is resolved on the tools that the server has."""
