"""Applying a plan to the fabric, finishing what was interrupted, rolling back."""
