"""Upstreams' components as this server's own: listed from snapshots, called through connections."""
