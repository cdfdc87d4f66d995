"""Replacing a file that a running program reads, so that no edit by another program or administrator is lost, and a
crash at any point can be undone."""
