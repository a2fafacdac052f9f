"""Rankers: score a catalog's tools for a request in a user's words.

numpy is imported on first use: that takes about 80 ms, which a server that ranks nothing need not pay.
"""
