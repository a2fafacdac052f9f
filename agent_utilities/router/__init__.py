"""Tool search in process: the active set of a Python agent loop, over tools or a client that it already has."""
