"""One connection to an upstream: its session, and the questions and messages during its calls."""
