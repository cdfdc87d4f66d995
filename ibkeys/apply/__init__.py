"""Applying a plan to the fabric, finishing interrupted operations, rolling back."""
