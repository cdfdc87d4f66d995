"""The version of ibkeys. It stands here and nowhere else: meson.build reads this file for the package."""

__version__ = "0.1.0"
