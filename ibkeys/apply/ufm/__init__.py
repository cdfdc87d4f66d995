"""The carrier that goes through UFM: members of partitions are changed over REST, and its SM writes the tables."""
