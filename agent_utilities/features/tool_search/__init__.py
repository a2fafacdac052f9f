"""Tool search on the wire: entry tools, sessions, turns, and what a search answers."""
