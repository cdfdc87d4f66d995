"""Replacing a file that a running program reads, so that no edit by another program or administrator is lost, but for
the gaps that `putting` names, and a crash at any point can be undone."""
