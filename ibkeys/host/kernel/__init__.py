"""What the kernel of this host shows of its InfiniBand ports to every user: no MAD is sent, no umad device opened."""
