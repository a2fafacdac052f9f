"""What one request may see: the verdict that holds for it, and the decisions made under it."""
