"""Policy: pure functions from a catalog and a selection to what is permitted, what is visible, and why."""
