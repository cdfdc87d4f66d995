"""The ports that a table lists: filters, and folding ports with equal values into one row."""
