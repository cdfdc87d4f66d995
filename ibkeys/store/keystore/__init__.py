"""The key store: M_Keys, and the links that prove the place of each port."""
