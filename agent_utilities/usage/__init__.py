"""What was called: a log in SQLite, and what it teaches."""
