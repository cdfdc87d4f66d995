"""The commands about M_Keys, and about keys of other management classes."""
