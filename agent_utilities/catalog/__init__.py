"""A server's components: as policy judges them, as rankers read them, and what they cost in a prompt."""
