"""Policy: from catalog and selection to what is permitted, what is visible, and why. Pure."""
