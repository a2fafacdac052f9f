"""The operator's decisions beside the config: consent to found files, the lock, and denials."""
