"""The key store: M_Keys, the runs that change them, and the links that say where each port is."""
