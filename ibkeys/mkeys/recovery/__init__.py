"""Recovering ports whose M_Key is lost."""
