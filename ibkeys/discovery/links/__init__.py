"""Links: what speaks for one, asked of the port before it and of the SA, and whether it is still as it was proven."""
