"""Supervision of upstreams: connections on demand, retries with backoff, lists in the background, and their end."""
