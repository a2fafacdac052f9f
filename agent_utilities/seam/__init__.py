"""The seam: the interface between a server and its features."""
