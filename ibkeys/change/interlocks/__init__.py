"""Interlocks: checks that find the dangerous consequences of a change before it is made. `ibkeys.change.consent` has
the names of all interlocks, also of those that are checked elsewhere."""
