"""Those who are told what a server did, and change none of it: metrics, and whoever else wants to know."""
