"""A page in a browser: what is in the prompt, what it costs, who is denied and why, and what was called."""
