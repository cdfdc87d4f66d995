"""Policies made and changed: from names, from a fabric; two of them compared."""
