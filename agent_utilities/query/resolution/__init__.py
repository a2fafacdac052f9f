"""Resolves queries: a user's words in, the tools that answer them out, from graph and ranker together."""
