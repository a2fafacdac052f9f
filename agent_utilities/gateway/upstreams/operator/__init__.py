"""What the operator says besides the config: what they agreed to, what they locked, what is denied."""
