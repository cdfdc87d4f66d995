"""Writes between two ports of this host, each restored, except that cleared violation counters cannot be."""
