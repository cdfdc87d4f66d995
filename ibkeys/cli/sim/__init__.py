"""The commands about simulated fabrics."""
