"""The key store: M_Keys and other keys, and the links and LIDs that prove the place of each port."""
