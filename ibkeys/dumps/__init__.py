"""Files that other tools wrote about a fabric, made into a snapshot: their values, joined, with the origin of each."""
