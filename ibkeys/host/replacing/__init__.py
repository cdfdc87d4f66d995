"""Replacing a file that a running program reads, so that no edit of anybody is lost and every crash can be undone."""
