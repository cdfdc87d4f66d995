"""OpenSM's partitions.conf: the reader, what it means, and who is a member of what."""
