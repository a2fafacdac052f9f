"""The tool graph: its records of servers and tools, its backends, and the match of a query on it.

It is a cache of live servers: nothing may be kept in it that can't be listed anew.
"""
