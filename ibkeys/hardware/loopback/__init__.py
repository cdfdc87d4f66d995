"""Writes between two ports of this host, each restored."""
