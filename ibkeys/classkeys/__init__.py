"""Keys of management classes other than subnet management: their files, how a port is asked, what its answer means."""
