"""The tests; a package so that `tests.corpus` is this one and no other."""
