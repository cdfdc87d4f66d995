"""Fitting lines and tables to the width and colours of the terminal."""
