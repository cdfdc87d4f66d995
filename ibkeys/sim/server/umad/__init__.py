"""Programs on our own libibumad (native/umad-sim): what the kernel's ib_umad and ib_mad know, for each simulated host.

`ibkeys.sim.server.umad.connections.Connections` is the way in.
"""
