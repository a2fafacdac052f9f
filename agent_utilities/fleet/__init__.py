"""Replicas of a server behind a balancer: what each keeps is kept in one Redis."""
