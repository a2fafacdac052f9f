"""What servers send, fitted to a protocol version."""
