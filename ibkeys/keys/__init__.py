"""What a key means. Pure functions and value types: no I/O, no bytes of MADs."""
