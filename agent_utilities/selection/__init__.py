"""What channels ask for: values, how they are read, and what they come to together."""
