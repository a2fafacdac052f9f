"""SDK middleware: reads requests, ties each to a verdict, and adds the decision to its result."""
