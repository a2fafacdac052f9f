"""The record of who called what: lines in chains of hashes, so that tampering shows."""
