"""The facts about this host's InfiniBand ports that the kernel shows to every user: no MAD is sent, no umad device
opened."""
