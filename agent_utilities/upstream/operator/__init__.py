"""What the operator says besides the config: what he agreed to, what he locked, what is denied."""
