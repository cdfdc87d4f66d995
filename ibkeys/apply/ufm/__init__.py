"""The carrier that uses UFM: it changes members of partitions over REST, and UFM's SM writes the tables."""
