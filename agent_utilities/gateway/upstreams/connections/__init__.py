"""One connection: made, negotiated, and what its upstream asks and tells while it works."""
