"""What a server can do beside keeping its bounds: one folder each, put together by `server_factory.py`."""
