"""The version of ibkeys. It is defined only here: meson.build reads this file for the package."""

__version__ = "0.1.0"
