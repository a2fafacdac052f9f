"""What people already have: config files of every host, read into one value."""
