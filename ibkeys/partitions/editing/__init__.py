"""Editing a partitions.conf in place: adding ports to partitions and removing them, with every other byte left as it
is."""
