"""Programs on our own libibumad (native/umad-sim): the kernel's ib_umad and ib_mad for each simulated host.

Begin with `ibkeys.sim.server.umad.connections.Connections`.
"""
