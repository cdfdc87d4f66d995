"""What is fuzzed, by subject. `tests.fuzz.catalogue` lists all of it."""
