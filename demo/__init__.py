"""Demos of real servers: of this repository, not of the package, as they start agents that no wheel brings."""
