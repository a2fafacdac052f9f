"""How well a ranker finds the tools that answer requests: what is read, measured and reported."""
