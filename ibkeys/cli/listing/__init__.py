"""Which ports a table lists, and how: filters, and ports that say the same in one row."""
