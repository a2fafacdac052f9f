"""Callers' own logins at upstreams: requested by a link, made in a browser, and used for that caller alone."""
