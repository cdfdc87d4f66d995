"""Files that other tools wrote about a fabric, made into a snapshot: what they say, joined, with whose word it is."""
