"""What a user's words find: the graph, the rankers, and how a query is answered."""
