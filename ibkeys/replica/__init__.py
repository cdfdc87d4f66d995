"""A simulated subnet made from files about a real one: snapshots, and files of other tools."""
