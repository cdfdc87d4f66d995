"""Programs on hosts of a simulated fabric: starting them without access to the real adapters, listing and ending
them."""
