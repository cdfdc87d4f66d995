"""Fuzzing: `make fuzz` gives every reader and decoder inputs that nobody meant. See docs/fuzzing.md."""
