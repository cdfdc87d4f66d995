"""Simulating the kernel modules ib_umad and ib_mad of each host, for programs on the simulator's own libibumad
(native/umad-sim).

Begin with `ibkeys.sim.server.umad.connections.Connections`.
"""
