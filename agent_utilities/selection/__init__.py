"""Selections: the values that each channel asks for, how they are parsed, and how they merge."""
