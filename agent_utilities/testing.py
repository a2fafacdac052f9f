"""Fakes."""
