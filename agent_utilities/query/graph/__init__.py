"""The tool graph: what it keeps of servers and tools, the backends that keep it, and what matches a query on it.

Floor 3: it knows no host and no ranker. A graph is a cache of live servers: whatever it holds can be listed anew, and
nothing that only it knows may be kept in it.
"""
