"""Programs on hosts of a simulated fabric: started where nothing reaches an adapter, found, and ended."""
