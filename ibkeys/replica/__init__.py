"""A simulated subnet that is made of files about a real one: snapshots, and what other tools wrote."""
