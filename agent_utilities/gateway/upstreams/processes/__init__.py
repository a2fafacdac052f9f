"""Upstreams over stdio: their programs, processes, messages and stderr."""
