"""Capabilities: bundles of servers that files describe, which of them are active, and what calls for one."""
