"""Dangerous settings of the subnet managers, each with its consequence and remedy."""
