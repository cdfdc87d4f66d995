"""Changing ports safely: what would change, the interlocks, the journal, the Set, and the proof by a fresh read."""
