"""Bringing back ports whose M_Key is lost."""
