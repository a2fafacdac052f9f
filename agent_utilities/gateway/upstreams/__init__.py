"""Servers that others wrote: how they are configured, started, kept and stopped, and what they last listed."""
