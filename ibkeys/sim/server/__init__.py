"""A server that simulates a subnet for any program on libibumad, and the socket that controls the server."""
