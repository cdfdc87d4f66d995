"""The version of ibkeys."""

__version__ = "0.1.0"
