"""The meaning of keys: pure functions and value types, without I/O or MAD bytes."""
