"""Snapshots on disk, with no secret in them."""
