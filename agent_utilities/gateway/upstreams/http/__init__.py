"""Upstreams over HTTP, of both eras and by SSE: transports, logins and errors."""
