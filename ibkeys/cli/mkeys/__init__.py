"""Commands about M_Keys."""
