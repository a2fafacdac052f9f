"""What a server's own command line prints besides serving."""
