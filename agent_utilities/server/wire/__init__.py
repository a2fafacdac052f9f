"""The seam on the wire: requests are read and tied to a verdict, results are stamped, changes are told."""
