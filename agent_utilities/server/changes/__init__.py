"""Changes of what is listed: watched for in providers, compared for each caller, and told to their clients."""
