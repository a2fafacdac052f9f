"""Changes of lists: detected in providers, compared for each caller, and notified to their clients."""
