"""Tool search: how models find and call what is not listed."""
