"""What every service needs of the event loop and of memory, and that knows nothing of tools."""
