"""Every kind of operation, interrupted, and somebody else who changed something since: one table."""
