"""State that the replicas of a server share, in the operator's Redis."""
