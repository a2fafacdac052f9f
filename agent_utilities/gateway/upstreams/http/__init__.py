"""Servers over HTTP, in both eras and by SSE: reached, logged in at, and what goes wrong there."""
