"""What a server has: its components as policy needs to know them, and its tools as rankers read them."""
