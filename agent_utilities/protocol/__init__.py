"""Adapts components and results to a client's protocol version."""
