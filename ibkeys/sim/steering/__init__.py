"""A simulated subnet steered in words: one line in, what came of it out."""
