"""Keys of management classes other than subnet management: their files, the queries to ports, and the readings."""
