"""A person's yes: calls that an operator names are made once somebody has agreed to each of them."""
