"""Proving links by their near port and the SA, and checking that a proven link has not changed since."""
