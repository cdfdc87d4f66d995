"""A simulated subnet as a server for any libibumad program, and the socket that controls it."""
