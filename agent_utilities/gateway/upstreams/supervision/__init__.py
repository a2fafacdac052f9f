"""Keeping upstreams: started when needed, tried again in measure, listed behind, ended together."""
