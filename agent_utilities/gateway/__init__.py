"""Servers that nobody here wrote, behind one address."""
