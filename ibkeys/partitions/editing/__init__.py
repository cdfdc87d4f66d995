"""Editing a partitions.conf in place: ports in and out of partitions, every other byte as it was."""
