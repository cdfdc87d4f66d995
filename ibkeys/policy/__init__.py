"""Partitions: OpenSM's policy file in, desired P_KeyTables and plans out."""
