"""Programs that models write: tools as Python functions, and what is wrong with a program before it runs."""
