"""Partitions: OpenSM's policy file in, desired P_KeyTables out; plans as files, applying them, going back."""
