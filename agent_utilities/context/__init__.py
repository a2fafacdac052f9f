"""What of a server is in a prompt, and what it costs there."""
