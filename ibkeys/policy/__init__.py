"""Partitions over a fabric: the plan as a file, the order of its steps, applying it, going back."""
