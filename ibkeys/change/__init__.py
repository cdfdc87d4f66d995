"""Changing ports safely: the plan, the interlocks, the journal, the Set, and verification by a fresh read."""
