"""Capabilities of a gateway: what there is for each caller, what is on for them, and the servers that run for it."""
