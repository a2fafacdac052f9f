"""The record of calls, put into a server."""
