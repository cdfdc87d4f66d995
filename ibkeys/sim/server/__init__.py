"""A simulated subnet as a server for any libibumad program, and the socket it is steered by."""
