"""What tools answer: bounded by a budget in tokens, kept whole, and read in parts."""
