"""What several replicas of a server share, in a Redis that others run."""
