"""The usage log on one server: what is recorded of requests, for whom, and what is learned of it."""
