"""Which ports a table lists, and how: filters, and folding ports with equal values into one row."""
