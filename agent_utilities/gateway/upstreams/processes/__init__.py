"""Servers over stdio: found, started, read, and ended with all that they started."""
