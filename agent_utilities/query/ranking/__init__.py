"""Rankers: a request in a user's words, and the tools of a catalog that answer it.

numpy is imported in the functions that use it: that takes about 80 ms, which a server that ranks nothing need not pay.
"""
